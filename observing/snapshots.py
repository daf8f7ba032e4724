"""Scrapes of a server's metrics into one observation, whatever engine and version they are of.

One scrape gives totals since the server's start and gauges of that moment; several give what happened between the first
and the last, and gauges as their mean. Equations are in figures.py, names in data/metric_names.
"""

from collections.abc import Sequence
from datetime import datetime

from infopt.errors import InfoptError
from infopt.observing.figures import Figures
from infopt.observing.metric_names import MetricNames, engines_of, known_engines, spelled
from infopt.observing.observation import Observation
from infopt.observing.routers import router_of
from infopt.observing.series import Chosen, choose
from infopt.observing.windows import STARTED, Snapshot, Window, window_of
from infopt.probes.metrics_text import Metrics
from infopt.records import validate_record

__all__ = ["Snapshot", "observation_of"]

FEW_REQUESTS = 20
MOST_UNKNOWN = 50
FAMILIES = 8  # shown of a text nobody knows


def observation_of(
    snapshots: Sequence[Snapshot], source: str, owner: str | None = None, model: str | None = None
) -> Observation:
    """What the scrapes say, in the order they were taken.

    owner  what /v1/models says of who serves: settles whose text it is where names alone do not
    model  counts alone where an address serves several

    Errors: InfoptError for no scrape, a text of no engine that is known (a router's, for one), times that do not rise.
    """
    if not snapshots:
        raise InfoptError(f"{source}: was never read, so nothing was observed")
    texts = [spelled(snapshot.metrics) for snapshot in snapshots]
    last = texts[-1]
    names, others = _whose(last, source, owner)
    chosen = [choose(text, names, model) for text in texts]
    kept = [
        Snapshot(c.metrics, snapshot.at_s, snapshot.taken, snapshot.slots)
        for c, snapshot in zip(chosen, snapshots, strict=True)
    ]
    window = window_of(kept, names.growing(), source)
    seconds = window.seconds if len(snapshots) > 1 else _age_s(snapshots[-1])
    figures = Figures(names, window.grown, kept, seconds, steady=not window.fell)
    found = figures.all()
    unknown = sorted({name for record in (names, *others) for name in record.unknown(last)})
    notes = [*_said(chosen, window, others, unknown), *figures.notes, *_few(found, len(snapshots)), *names.said]
    data = {
        "engine": names.engine,
        "version_guess": names.version_guess(last),
        "model": ", ".join(chosen[-1].models) or model,
        "source": source,
        "kind": "window" if len(snapshots) > 1 else "totals",
        "window_s": seconds,
        "taken": snapshots[-1].taken,
        "notes": tuple(dict.fromkeys(notes)),
        "unknown_names": tuple(unknown[:MOST_UNKNOWN]),
    }
    return validate_record(Observation, data | found, source)


def _whose(metrics: Metrics, source: str, owner: str | None) -> tuple[MetricNames, tuple[MetricNames, ...]]:
    """The engine that serves, and others whose names the text holds too."""
    found = engines_of(metrics)
    router = router_of(metrics, {names.engine for names in found})
    if router is not None:
        raise InfoptError(f"{source}: holds the metrics of {router.name}; {router.remedy}")
    if not found:
        known = ", ".join(sorted({names.engine for names in known_engines()}))
        raise InfoptError(
            f"{source}: no metrics of an engine that is known ({known}), only {_families(metrics)}; give the engine's "
            "own /metrics, and start it with its metrics on"
        )
    named = next((names for names in found if owner is not None and names.owner == owner), found[0])
    return named, tuple(names for names in found if names is not named)


def _families(metrics: Metrics) -> str:
    """The beginnings of a text's names."""
    begins = sorted({name.split(":")[0] + ":" if ":" in name else name.split("_")[0] + "_" for name in metrics.series})
    more = f" and {len(begins) - FAMILIES} more" if len(begins) > FAMILIES else ""
    return ", ".join(f"{begin}*"[:40] for begin in begins[:FAMILIES]) + more


def _age_s(snapshot: Snapshot) -> float | None:
    """Seconds the server had been up when it was scraped, where both times are known."""
    started = snapshot.metrics.series.get(STARTED, {})
    if snapshot.taken is None or len(started) != 1:
        return None
    try:
        taken = datetime.fromisoformat(snapshot.taken.replace("Z", "+00:00"))
    except ValueError:
        return None
    age = taken.timestamp() - next(iter(started.values())) if taken.tzinfo else 0.0
    return age if 0 < age < float("inf") else None


def _said(chosen: Sequence[Chosen], window: Window, others: Sequence[MetricNames], unknown: Sequence[str]) -> list[str]:
    """What a reader must know of the scrapes."""
    notes = list(chosen[-1].notes)
    unusable = sorted({name for c in chosen for name in c.unusable})
    if unusable:
        more = f" and {len(unusable) - 5} more" if len(unusable) > 5 else ""
        notes.append(f"left out, being negative, beyond all bounds or no number: {', '.join(unusable[:5])}{more}")
    if window.fell:
        notes.append(
            f"the server restarted, or another one answered: {window.fell[0]} fell; {len(window.fell)} of "
            f"{window.intervals} intervals left out"
        )
    if len(window.fell) < window.intervals and window.seconds is None:
        notes.append("the time between the scrapes is not known, so there are no rates")
    if not window.intervals:
        notes.append(
            "one scrape: counts and times since the server's start; queue, KV use and a batch by gauge of that moment"
        )
    notes += [f"{other.engine}'s metrics are there too and were not used" for other in others]
    if len(unknown) > MOST_UNKNOWN:
        notes.append(f"{len(unknown)} names are not known, {MOST_UNKNOWN} are listed")
    return notes


def _few(found: dict[str, object], scrapes: int) -> list[str]:
    """What small counts are worth."""
    requests, tokens = found.get("requests"), found.get("output_tokens")
    if tokens == 0 or (tokens is None and requests == 0):
        return ["nothing was served in the window" if scrapes > 1 else "nothing was served since the start"]
    if isinstance(requests, float) and requests < FEW_REQUESTS:
        return [f"only {requests:g} requests finished: means are rough, high percentiles are the longest of them"]
    return []
