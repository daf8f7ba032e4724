"""Refresh what is computed in README.md and docs/: `python tools/docs_tables.py`.

Two kinds of text are replaced: what stands between `<!-- begin: NAME -->` and `<!-- end: NAME -->`, and the output
under a `$ infopt ...` line in a ```console block. Everything else is written by hand.
"""

import csv
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(__file__).with_name("peers_kv.csv")
GIB = 2**30

# Their console blocks are sessions: tools/docs_sessions.py.
SESSIONS = ("docs/tutorial.md", "docs/howto/")
# Their marked parts are computed by tools of their own.
OTHERS = ("docs/gate.md",)

_BLOCK = re.compile(r"(<!-- begin: (?P<name>[\w-]+) -->\n).*?(<!-- end: (?P=name) -->)", re.DOTALL)
_CONSOLE = re.compile(r"(```console\n\$ infopt (?P<arguments>[^\n]*)\n).*?(```\n)", re.DOTALL)


def pages() -> list[str]:
    """Pages with a computed part, as paths from the root."""
    found = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("**/*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in found if _computed(path.read_text(encoding="utf-8"))]
    return [name for name in names if not name.startswith((*SESSIONS, *OTHERS))]


def _computed(text: str) -> bool:
    return _BLOCK.search(text) is not None or _CONSOLE.search(text) is not None


def filled(text: str) -> str:
    """`text` with every computed part as it is now."""
    text = _BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match['name']]()}\n{match[3]}", text)
    return _CONSOLE.sub(lambda match: match[1] + run(match["arguments"])[1] + match[3], text)


def run(arguments: str) -> tuple[int, str]:
    """Exit status and output of `infopt ARGUMENTS`, as a pipe gets it: 80 columns, no colour."""
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    environment["PYTHONIOENCODING"] = "utf-8"
    command = [sys.executable, "-m", "infopt", *shlex.split(arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment, cwd=ROOT, check=False
    )
    return done.returncode, "".join(f"{line.rstrip()}\n" for line in (done.stdout + done.stderr).splitlines())


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def reproduce_block() -> str:
    from infopt.reports.reproduce_report import markdown
    from infopt.studies.reproduce import reproduce

    return markdown(reproduce())


def weights_block() -> str:
    """Weight formats, with what a 70B and an 8B come to in each."""
    from infopt.ledgers.weights import stored_weights_bytes
    from infopt.profiles.formats import WEIGHTS, load_weight_format, weight_bits_by_part
    from infopt.profiles.resolve import resolve_model
    from infopt.records import names_in

    def stored(model: str, name: str) -> str:
        profile = resolve_model(model)
        return f"{stored_weights_bytes(profile, weight_bits_by_part(profile, name)[1], False) / 1e9:.2f}"

    rows = []
    for name in sorted(names_in(WEIGHTS), key=lambda name: (-load_weight_format(name).bits_per_weight, name)):
        record = load_weight_format(name)
        everything = "embedding" in record.parts
        parts = "all" if record.covers_everything else "all matrices" if everything else "layers"
        quality = record.quality_range
        shown = " to ".join(dict.fromkeys(f"{end:.0%}" for end in quality)) if quality else ""
        spelled = ", ".join(spellings("weights", name))
        figures = [f"{record.bits_per_weight:g}", parts, record.compute, stored("70b", name), stored("8b", name), shown]
        rows.append([f"`{name}`", *figures, spelled, record.source])
    header = [
        "format",
        "bits a weight",
        "covers",
        "math in",
        "70B, GB",
        "8B, GB",
        "quality, document 3",
        "also",
        "source",
    ]
    return table(header, rows)


def kv_block() -> str:
    """KV formats, with what a 70B keeps in each."""
    from infopt.ledgers.cache import model_cache
    from infopt.profiles.formats import KV, load_kv_format
    from infopt.profiles.resolve import resolve_model
    from infopt.records import names_in

    rows = []
    for name in sorted(names_in(KV), key=lambda name: (-load_kv_format(name).bits_per_element, name)):
        record = load_kv_format(name)
        extra = f"{record.bytes_per_vector} B a head vector" if record.bytes_per_vector else ""
        if record.latent_bytes_per_token:
            extra = f"{record.latent_bytes_per_token} B a latent, {record.index_bytes_per_token} B an index key"
        sizes = model_cache(resolve_model("70b"), record)
        per_token = f"{sizes.full_bytes_per_token:,.0f}"
        long = f"{sizes.kv_bytes_per_sequence(32768) / 1e9:.2f}"
        bits = f"{record.bits_per_element:g}"
        rows.append([f"`{name}`", bits, extra, per_token, long, ", ".join(spellings("kv", name)), record.source])
    header = ["format", "bits an element", "beside it", "70B, B a token", "70B at 32k, GB", "also", "source"]
    return table(header, rows)


def spellings(kind: str, name: str) -> list[str]:
    """Other names a format is known by."""
    from infopt.profiles.formats import WEIGHTS
    from infopt.records import read_yaml

    known = read_yaml(WEIGHTS.parent / "format_aliases.yaml")[kind]
    return sorted(alias for alias, target in known.items() if target == name)


def engines_block() -> str:
    """Constants of every engine record."""
    from infopt.profiles.engines import ENGINES, PROBE_ENGINE, EngineConstants, engine_names, version_key
    from infopt.records import names_in, read_yaml, validate_record

    rows = []
    for engine in (*engine_names(), PROBE_ENGINE):
        for since in sorted(names_in(ENGINES / engine), key=version_key):
            path = ENGINES / engine / f"{since}.yaml"
            record = validate_record(EngineConstants, read_yaml(path), str(path))
            rows.append(
                [
                    f"{engine} {since} to {record.until or 'newest'}",
                    record.budget.replace("_", " "),
                    f"{record.utilization:g}",
                    "inside" if record.graphs_in_budget else "outside",
                    f"{record.block_tokens}",
                    span_text(record.logits_copies, 1),
                    span_text(record.non_torch_bytes.single, GIB),
                    span_text(record.non_torch_bytes.parallel, GIB),
                    span_text(record.context_bytes.single, GIB),
                    span_text(record.graph_bytes, GIB),
                    "its own" if record.known else "carried over",
                ]
            )
    header = ["engine", "budget", "default share", "graphs", "block", "logits copies", "non-torch, 1 GPU"]
    return table([*header, "non-torch, several", "context, 1 GPU", "graphs, GiB", "figures"], rows)


def span_text(span: object, divisor: float) -> str:
    """Value and interval of a constant; an asterisk marks what was assumed, not measured."""
    value, low, high = (getattr(span, field) / divisor for field in ("value", "low", "high"))
    mark = "*" if getattr(span, "kind", "") == "assumed" else ""
    around = f" ({low:.3g} to {high:.3g})" if low != high else ""
    return f"{value:.3g}{mark}{around}"


def peers_block() -> str:
    """KV of the nine models: right, ours, and what other tools print."""
    from infopt.ledgers.cache import model_cache
    from infopt.profiles.formats import kv_format_name, load_kv_format
    from infopt.profiles.resolve import resolve_model

    with PEERS.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    tools = [name for name in records[0] if name not in ("model", "name", "context", "right")]
    rows = []
    for record in records:
        model = resolve_model(record["model"])
        cache = model_cache(model, load_kv_format(kv_format_name(model, None)))
        ours = (cache.kv_bytes_per_sequence(int(record["context"])) + cache.state_bytes) / GIB
        printed = [mark_wrong(record[tool], float(record["right"])) for tool in tools]
        context = f"{int(record['context']) // 1024}k"
        rows.append([f"{record['name']}, {context}", record["right"], f"{ours:.3f}", *printed])
    return table(["model, context", "right", "infopt", *tools], rows)


def mark_wrong(text: str, right: float) -> str:
    """Bold where a printed figure is off by more than 5 %."""
    try:
        off = abs(float(text) / right - 1)
    except ValueError:
        return text
    return f"**{text}**" if off > 0.05 else text


def accuracy_block() -> str:
    """Errors of the memory ledger by group."""
    from infopt.studies.truth import BUNDLED_MEMORY
    from infopt.studies.validate import validate

    result = validate(BUNDLED_MEMORY)
    rows = [
        [score.group, f"{score.n}", f"{score.mape:.2%}", f"{score.median_ape:.2%}", f"{score.within_1pct:.0%}"]
        for score in result.groups
    ]
    text = f"{len(result.scored)} of {len(result.checks)} figures that engines printed are scored.\n\n"
    return text + table(["group", "figures", "mean error", "median error", "within 1 %"], rows)


def speed_block() -> str:
    """Errors of estimated speed by group."""
    from infopt.studies.speed_truth import BUNDLED_SPEED
    from infopt.studies.validate import validate

    rows = [
        [
            score.group,
            f"{score.n}",
            f"{score.mape:.1%}",
            f"{score.median_ape:.1%}",
            f"{score.within_30pct:.0%}",
            "-" if score.interval_coverage is None else f"{score.interval_coverage:.0%}",
        ]
        for score in validate(BUNDLED_SPEED).groups
    ]
    return table(["group", "rows", "mean error", "median error", "within 30 %", "in the printed interval"], rows)


def techniques_block() -> str:
    """Every optimization `boundary` knows, with what its verdict turns on."""
    from infopt.boundaries.registry import techniques

    rows = [
        [
            f"[`{t.id}`](../boundaries/{t.judge.__module__.rpartition('.')[2]}.py)",
            t.ledger,
            ", ".join(q.name for q in t.quantities),
            ", ".join(f"`{alias}`" for alias in t.aliases),
            "yes" if t.apply is not None else "",
        ]
        for t in techniques()
    ]
    return table(["technique", "saves", "verdict turns on", "also called", "`--with`"], rows)


def models_block() -> str:
    """Every model of the catalogue."""
    from infopt.studies.model_view import find_models, short_names, views_of
    from infopt.units import format_count, format_tokens

    short = short_names()
    rows = [
        [
            f"`{view.model.id}`",
            ", ".join(f"`{name}`" for name in short.get(view.model.id, ())),
            format_count(view.model.params_total),
            format_count(view.model.params_active),
            f"{view.model.layers}",
            view.weight_format,
            f"{view.cache.full_bytes_per_token:,.0f}",
            format_tokens(view.model.max_position_tokens) if view.model.max_position_tokens else "",
        ]
        for view in views_of(find_models(None))
    ]
    return table(["model", "short names", "total", "active", "layers", "weights", "KV, B a token", "limit"], rows)


def accelerators_block() -> str:
    """Every accelerator of the catalogue."""
    from infopt.studies.hardware_view import find_hardware
    from infopt.units import format_bytes_per_s, format_flop_per_s, format_gib, format_usd

    def shown(value: float | None, unit: Callable[[float], str]) -> str:
        return "" if value is None else unit(value)

    rows = [
        [
            f"`{found['id']}`",
            found["name"],
            f"{format_gib(found['usable_memory_bytes'])} ({found['usable_kind']})",
            format_bytes_per_s(found["bandwidth_bytes_per_s"]),
            shown(found["bf16_flop_per_s"], format_flop_per_s),
            shown(found["fp8_flop_per_s"], format_flop_per_s),
            f"{found['link'] or ''} {shown(found['link_bytes_per_s'], format_bytes_per_s)}".strip(),
            shown(found["usd_per_hour"], format_usd),
        ]
        for found in find_hardware(None)
    ]
    return table(["name", "device", "memory", "bandwidth", "bf16", "fp8", "link", "an hour"], rows)


def decisions_block() -> str:
    """The decision records, in order."""
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    titles = (path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in pages)
    return table(["decision"], [[f"[{title}]({path.name})"] for title, path in zip(titles, pages, strict=True)])


BLOCKS: dict[str, Callable[[], str]] = {
    "reproduce": reproduce_block,
    "weights": weights_block,
    "kv": kv_block,
    "engines": engines_block,
    "peers": peers_block,
    "techniques": techniques_block,
    "accuracy": accuracy_block,
    "speed": speed_block,
    "models": models_block,
    "accelerators": accelerators_block,
    "decisions": decisions_block,
}


def main() -> None:
    for page in pages():
        path = ROOT / page
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
