"""Hardware as people write it: `h100`, `H100-SXM:8`, `2x rtx 4090`, `NVIDIA-H100-80GB-HBM3`, `1g.10gb`, `p5.48xlarge`.

A name is read as a core (`h100`), a form (`sxm`, `pcie`, `nvl`) and a size (`80gb`), in any order; `data/names.csv`
says which accelerator each combination is. Where several remain, the smaller is taken and `resolved_as` says so.
"""

import re
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from infopt.errors import InfoptError, unknown_name
from infopt.hardware.accelerator import HardwareChoice
from infopt.hardware.catalogue import ACCELERATORS, DATA, REMEDY, hardware_names, load_accelerator

MAX_NAME = 200
MAX_GPUS = 100_000
OF_THIS_MACHINE = ("auto", "cpu")

# Words that say who made it or what it is, never which one.
NOISE = frozenset(
    """
    nvidia amd intel google aws apple geforce tesla instinct quadro gpu gpus cpu processor accelerator accelerators card
    cards chip chips graphics generation edition blackwell superchip tensor oam hbm hbm2 hbm2e hbm3 hbm3e gddr6 gddr6x
    gddr7 lpddr5x mac macbook shared r tm ac vf cloud com product the with unified memory core cores
    """.split()  # noqa: SIM905
)
FORMS = {
    "sxm": "sxm", "sxm2": "sxm", "sxm3": "sxm", "sxm4": "sxm", "sxm5": "sxm", "sxm6": "sxm", "hgx": "sxm", "dgx": "sxm",
    "mega": "sxm", "pcie": "pcie", "pci": "pcie", "nvl": "nvl", "ws": "ws", "workstation": "ws", "server": "server",
    "se": "server", "maxq": "maxq",
}  # fmt: skip
TIMES = r"\s*[x×*]\s*"


class Row(NamedTuple):
    """One line of `data/names.csv`; `size_gb` None where the size is chosen when the chip is bought."""

    form: str
    size_gb: int | None
    accelerator: str


class Name(NamedTuple):
    """A name taken apart."""

    core: str
    form: str | None
    size_gb: int | None


def resolve_hardware(text: str) -> HardwareChoice:
    """What `text` names: one kind of accelerator and, where the text says so, how many.

    Takes accelerator ids and names, vendor and Kubernetes product labels, MIG slices, cloud instance types,
    `custom:80GB:3.35TB/s[:989TFLOP/s]` and `auto` (what the drivers of this machine list), each with a count
    before (`8xh100`, `2x rtx 4090`) or after (`h100:8`, `h100x8`); and `cpu`, this machine's processor, with the
    bandwidth of its memory where nobody has listed it (`cpu:20GB/s`).
    Errors: `InfoptError` for an unknown name (the nearest listed), two kinds at once, or a count below 1.
    """
    cleaned = " ".join(text.split())
    if not cleaned or len(cleaned) > MAX_NAME:
        raise InfoptError(
            f"--hw {text[:40]!r}: a name such as h100, h100:8 or custom:80GB:3.35TB/s is expected; {REMEDY}"
        )
    if cleaned.lower() == "cpu":
        from infopt.hardware.host import processor_choice

        return processor_choice()
    if cleaned.lower().startswith("cpu:"):
        from infopt.hardware.host import processor_at

        return processor_at(cleaned.partition(":")[2].strip())
    choice = _whole(cleaned) or _counted(cleaned)
    if choice is None:
        _refuse_mixed(cleaned)
        raise unknown_name("hardware", cleaned, known_names(), REMEDY)
    return choice


def _whole(text: str) -> HardwareChoice | None:
    """`text` without a count: a fixed word, an accelerator, a MIG slice or an instance type; None where it is none."""
    lowered = text.lower()
    if lowered == "auto":
        from infopt.hardware.detect import detect

        return detect()
    if lowered.startswith("custom:"):
        from infopt.hardware.custom import parse_custom

        return parse_custom(text)
    if re.search(r"(?<![a-z0-9])\dg\.\d+gb", lowered):
        from infopt.hardware.mig import resolve_slice

        return resolve_slice(lowered)
    return _named(lowered) or _instance(text)


def _counted(text: str) -> HardwareChoice | None:
    """A name with a count on either side; every way to cut the text is tried until one names something."""
    for pattern in (
        rf"(?P<n>\d{{1,9}}){TIMES}(?P<name>.+)",
        r"(?P<n>\d{1,9})\s+(?P<name>.+)",
        r"type=(?P<name>[^,]+),count=(?P<n>\d{1,9})",
        rf"(?P<name>.+?)(?:{TIMES}|\s*[:=]\s*)(?P<n>\d{{1,9}})",
        r"(?P<name>(?:tpu.*|v\d.*))-(?P<n>\d{1,9})",
    ):
        match = re.fullmatch(pattern, text, re.IGNORECASE)
        if not match:
            continue
        name = match["name"].strip()
        choice = _whole(name) or (_whole(name[:-1]) if name.lower().endswith("s") else None)
        if choice:
            return _times(choice, int(match["n"]), text)
    return None


def _times(choice: HardwareChoice, count: int, text: str) -> HardwareChoice:
    """`count` of what `choice` names (an instance type brings its own count)."""
    gpus = count * (choice.gpus or 1)
    if not 0 < gpus <= MAX_GPUS:
        raise InfoptError(f"--hw {text}: the count must be between 1 and {MAX_GPUS}")
    usd = choice.usd_per_hour * count if choice.usd_per_hour is not None else None
    return replace(choice, gpus=gpus, usd_per_hour=usd, resolved_as=f"{count} x {choice.resolved_as}")


def _refuse_mixed(text: str) -> None:
    """Refuse two kinds of accelerator in one text; a plus sign inside one name has been read by now."""
    parts = [part.strip() for part in re.split(r"\s*[+&]\s*|,|;|\band\b", text) if part.strip()]
    if len(parts) < 2:
        return
    named = [part for part in parts if _whole(part) or _counted(part)]
    if len(named) > 1:
        raise InfoptError(
            f"--hw {text}: one kind of accelerator at a time; plan {' and '.join(named)} separately "
            "(in a mixed group the slowest and smallest sets the pace)"
        )


def _named(text: str) -> HardwareChoice | None:
    """An accelerator by id or by name; None where no core of that name exists."""
    if re.search(r":\s*\d+$", text):
        return None  # a number after a colon is a count, even where it could be a size
    if re.fullmatch(r"[a-z0-9-]+", text) and (ACCELERATORS / f"{text}.yaml").is_file():
        accelerator = load_accelerator(text)
        return HardwareChoice(accelerator, None, accelerator.name)
    name = split_name(text)
    rows = name_rows(name.core)
    return _pick(text, name, rows) if rows else None


def _pick(text: str, name: Name, rows: list[Row]) -> HardwareChoice:
    """The row that fits form and size; of several the smallest, the first written winning a tie."""
    fitting = fitting_rows(name)
    if not fitting:
        raise InfoptError(
            f"--hw {text}: no such version; known: {', '.join(dict.fromkeys(r.accelerator for r in rows))}"
        )
    row = min(fitting, key=lambda row: row.size_gb or 0)
    sized = row.size_gb is None and name.size_gb is not None
    accelerator = load_accelerator(f"{row.accelerator}-{name.size_gb}gb" if sized else row.accelerator)
    others = list(dict.fromkeys(r.accelerator for r in fitting if r.accelerator != row.accelerator))
    note = f", the first of the smallest; also {', '.join(others)}" if others else ""
    if row.size_gb is None and name.size_gb is None:
        note = f" with {accelerator.memory_bytes // 2**30} GiB (add the size, as in '{text} 64gb', to choose)"
    return HardwareChoice(accelerator, None, accelerator.name + note, others=tuple(others))


def fitting_rows(name: Name) -> list[Row]:
    """The rows of a core that agree with the form and the size named."""
    rows = [row for row in name_rows(name.core) if name.form in (None, row.form) or not row.form]
    return rows if name.size_gb is None else [row for row in rows if row.size_gb in (None, name.size_gb)]


def split_name(text: str) -> Name:
    """Take a lower-case name apart: vendor words dropped, form and size set aside, the rest joined as the core."""
    text = re.sub(r"max-q\b", "maxq", text)
    text = re.sub(r"\b(macbook|mac) (pro|air|studio|mini)\b", "mac", text)
    tokens = re.findall(r"[a-z0-9+]+", text)
    form, size, core = None, None, []
    for token in tokens:
        gigabytes = re.fullmatch(r"(\d{1,5})(?:gb|gib|g)", token)
        if token in FORMS and form is None:
            form = FORMS[token]
        elif gigabytes and size is None:
            size = int(gigabytes[1])
        elif token not in NOISE and not re.fullmatch(r"\d+c", token):
            core.append(token)
    return _refine(core, form, size)


def _refine(core: list[str], form: str | None, size: int | None) -> Name:
    """Read what is written together (`h100sxm5`, `a100-80`): a form or a size at the end of the core."""
    joined = "".join(core)
    if name_rows(joined):
        return Name(joined, form, size)
    if (
        size is None
        and len(core) > 1
        and core[-1].isdigit()
        and any(row.size_gb == int(core[-1]) and row.form != "tpu" for row in name_rows("".join(core[:-1])))
    ):
        return Name("".join(core[:-1]), form, int(core[-1]))
    glued = re.fullmatch(r"(.+?)(sxm|pcie|nvl)\d?(?:(\d{2,3})gb?)?", joined)
    if glued and name_rows(glued[1]):
        return Name(glued[1], form or glued[2], size or (int(glued[3]) if glued[3] else None))
    return Name(joined, form, size)


def name_rows(core: str) -> list[Row]:
    """The lines of `data/names.csv` for one core."""
    if not core or "," in core:
        return []
    rows = []
    for line in _lines():
        if line.startswith(core + ","):
            _, form, size, accelerator = line.split(",")
            rows.append(Row(form, None if size == "any" else int(size), accelerator))
    return rows


@cache
def _lines() -> tuple[str, ...]:
    """`data/names.csv` without its heading."""
    return tuple((DATA / "names.csv").read_text(encoding="utf-8").splitlines()[1:])


def _instance(text: str) -> HardwareChoice | None:
    """A cloud instance type, read from the files of `data/instances` only when nothing else matched."""
    from infopt.hardware.instances import find_instance

    return find_instance(text)


def known_names() -> list[str]:
    """Every name there is, to suggest the nearest of: ids, cores and instance types."""
    from infopt.hardware.instances import instance_names

    cores = [line.split(",", 1)[0] for line in _lines()]
    return [*hardware_names(), *dict.fromkeys(cores), *instance_names()]
