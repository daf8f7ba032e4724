"""Slices of one GPU (MIG): `h100-mig-3g.40gb`, `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb`, `nvidia.com/mig-1g.10gb`.

A slice owns its share of the memory, with the bandwidth that goes with it, and its share of the multiprocessors, in the
fractions NVIDIA's MIG user guide prints (a seventh for 1g; listings count 16 of an H100's 132, so peaks are a little
high). `data/mig.csv` says for each line what kind of knowledge it is and where it came from. It has no link to others.
"""

import re
from dataclasses import replace
from fractions import Fraction
from typing import cast

from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import Accelerator, Datum, HardwareChoice, Kind
from infopt.hardware.catalogue import DATA, GIB, load_accelerator

# The least that was seen of a slice's share: 16.00 GiB of an eighth of H200's 140.4 (mig-parted notes, public files).
LEAST_SEEN_SHARE = 0.91
PROFILE = re.compile(r"(?<![a-z0-9])(\dg\.\d{1,3}gb)(?:[+-](?:me|gfx)(?:\.all)?)?(?![a-z0-9])")


@dataclass(frozen=True, slots=True)
class Profile:
    """One line of `data/mig.csv`: shares of the GPU `accelerator`, and the GiB the driver lists where seen.

    shares  kind and source of the two shares
    listed  kind and source of `listed_gib`, None where nothing was seen
    """

    accelerator: str
    name: str
    compute_share: Fraction
    memory_share: Fraction
    shares: Datum
    listed_gib: float | None
    listed: Datum | None


def resolve_slice(text: str) -> HardwareChoice | None:
    """The slice `text` (lower case) names; None where there is no profile in it.

    Without a GPU's name, or where the name leaves several, the slice with the least memory is taken and said so.
    Errors: a profile no GPU, or not this GPU, can be cut into; the profiles it can are listed.
    """
    match = PROFILE.search(text)
    if not match:
        return None
    rest = (text[: match.start()] + " " + text[match.end() :]).replace("nvidia.com/", " ")
    rest = re.sub(r"\bmig\b", " ", re.sub(r"[-_:/]+", " ", rest)).strip()
    parents = _parents(rest)
    if parents is None:
        return None
    slices = [
        profile
        for profile in profiles()
        if profile.name == match[1] and (not parents or profile.accelerator in parents)
    ]
    if not slices:
        raise _no_profile(match[1], parents)
    cut = [cut_slice(profile) for profile in slices]
    chosen = min(cut, key=lambda accelerator: accelerator.usable_memory_bytes)
    others = [accelerator.id for accelerator in cut if accelerator is not chosen]
    note = f", the first of the smallest; also {', '.join(others)}" if others else ""
    return HardwareChoice(chosen, None, chosen.name + note, others=tuple(others))


def profiles() -> tuple[Profile, ...]:
    """All profiles of `data/mig.csv`."""
    lines = (DATA / "mig.csv").read_text(encoding="utf-8").splitlines()[1:]
    return tuple(_profile(line) for line in lines)


def _profile(line: str) -> Profile:
    name, profile, compute, memory, kind, gib, listed_kind, listed_source, source = line.split(",", 8)
    listed = Datum(cast(Kind, listed_kind), listed_source) if gib else None
    shares = Datum(cast(Kind, kind), source)
    return Profile(name, profile, Fraction(compute), Fraction(memory), shares, float(gib) if gib else None, listed)


def cut_slice(profile: Profile) -> Accelerator:
    """The slice as an accelerator of its own: shares of memory, bandwidth and compute of the whole GPU."""
    whole = load_accelerator(profile.accelerator)
    share, compute = float(profile.memory_share), float(profile.compute_share)
    usable, datum = _usable(profile, whole)
    data = {
        name: _shared(d, profile, profile.compute_share if name.startswith("peak") else profile.memory_share)
        for name, d in whole.data.items()
        if name.partition(".")[0]
        not in ("link", "pcie", "measured", "driver_memory_bytes", "tdp_watts", "usd_per_hour")
    }
    data["usable_memory_bytes"] = datum
    if profile.listed:
        data["driver_memory_bytes"] = profile.listed
    if whole.pcie:
        data["pcie"] = whole.data["pcie"]
    return replace(
        whole,
        id=f"{whole.id}-mig-{profile.name}",
        name=f"{whole.name}, MIG slice {profile.name}",
        memory_bytes=round(whole.memory_bytes * share),
        driver_memory_bytes=round(profile.listed_gib * GIB) if profile.listed_gib else None,
        usable_memory_bytes=usable,
        bandwidth_bytes_per_s=whole.bandwidth_bytes_per_s * share,
        peak_flop_per_s={name: peak * compute for name, peak in whole.peak_flop_per_s.items()},
        link=None,
        tdp_watts=None,
        usd_per_hour=None,
        price_date=None,
        measured={},
        data=data,
        notes=("a slice has no link to other slices; host memory and PCIe are shared", *whole.notes),
    )


def _shared(datum: Datum, profile: Profile, share: Fraction) -> Datum:
    """A share of a figure is known no better than the figure and no better than the share."""
    kind = "assumed" if "assumed" in (datum.kind, profile.shares.kind) else datum.kind
    return Datum(kind, f"{share} ({profile.shares.source}) of: {datum.source}")


def _usable(profile: Profile, whole: Accelerator) -> tuple[int, Datum]:
    """What an engine sees of a slice: the listed GiB (CUDA sees the same 39.25 of A100's 3g.40gb), else a share."""
    if profile.listed_gib and profile.listed:
        return round(profile.listed_gib * GIB), profile.listed
    if profile.memory_share == 1:
        return whole.usable_memory_bytes, Datum("assumed", "as the whole GPU")
    total = whole.driver_memory_bytes or whole.usable_memory_bytes
    source = (
        f"{profile.memory_share} of the GPU's memory times {LEAST_SEEN_SHARE}, the least seen (H200 1g.18gb: 16.00 GiB)"
    )
    return round(total * float(profile.memory_share) * LEAST_SEEN_SHARE), Datum("assumed", source)


def _parents(rest: str) -> set[str] | None:
    """Ids of the GPUs `rest` can mean (empty: any); None where it names none, as with a count still in it."""
    from infopt.hardware.names import fitting_rows, split_name

    name = split_name(rest)
    if not name.core:
        return set()
    rows = fitting_rows(name)
    return {row.accelerator for row in rows} if rows else None


def _no_profile(profile: str, parents: set[str]) -> InfoptError:
    known = dict.fromkeys(p.name for p in profiles() if not parents or p.accelerator in parents)
    if not known:
        return InfoptError(f"{', '.join(sorted(parents))} cannot be cut into MIG slices as far as is known")
    return InfoptError(
        f"no MIG profile {profile}{' of ' + ', '.join(sorted(parents)) if parents else ''}; known: {', '.join(known)}"
    )
