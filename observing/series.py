"""Which series of a text count: those of the model that was asked for, of one copy of each rank, with usable values."""

from collections.abc import Iterable, Mapping

from infopt.frozen import dataclass
from infopt.observing.metric_names import MetricNames
from infopt.observing.observation import MOST_AMOUNT
from infopt.probes.metrics_text import Labels, Metrics

SHOWN_MODELS = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """The series that count.

    models    whose they are
    unusable  names of series left out since they are negative, beyond all bounds or no number
    notes     what was added up
    """

    metrics: Metrics
    models: tuple[str, ...]
    unusable: tuple[str, ...]
    notes: tuple[str, ...]


def choose(metrics: Metrics, names: MetricNames, model: str | None) -> Chosen:
    """The series of one engine that count; names of others stay as they are."""
    own = {name: series for name, series in metrics.series.items() if name.startswith(tuple(names.prefixes))}
    label = next((label for label in names.model_label if _values(own.values(), label)), None)
    models = _models(own, names, label)
    kept_models = (model,) if model in models else models
    first = _first_copies(own.values(), names)
    reads, nones, unusable = names.reads(), names.nones(), set()
    kept: dict[str, Mapping[Labels, float]] = {name: metrics.series[name] for name in metrics.series if name not in own}
    all_count = kept_models == models and names.model_of is None and not first
    for name, series in own.items():
        chosen = {k: value for k, value in series.items() if all_count or _counts(k, names, label, kept_models, first)}
        usable = {labels: value for labels, value in chosen.items() if 0 <= value <= MOST_AMOUNT}
        bad = [value for labels, value in chosen.items() if labels not in usable]
        if name in reads and not nones.get(name, frozenset()).issuperset(bad):
            unusable.add(name)
        if usable:
            kept[name] = usable
    return Chosen(Metrics(kept, 0), kept_models, tuple(sorted(unusable)), _notes(own.values(), names, kept_models))


Rank = tuple[str | None, ...]


def _rank(said: Mapping[str, str], names: MetricNames) -> Rank:
    return tuple(said.get(label) for label in names.ranks)


def _first_copies(series: Iterable[Iterable[Labels]], names: MetricNames) -> dict[Rank, dict[str, str]]:
    """Of each rank that shares the load, the least value of every label that tells copies apart."""
    first: dict[Rank, dict[str, str]] = {}
    if not names.copies:
        return first
    for said in (dict(labels) for labels_of in series for labels in labels_of):
        least = first.setdefault(_rank(said, names), {})
        for label in names.copies:
            if label in said:
                least[label] = min(said[label], least.get(label, said[label]), key=lambda text: (len(text), text))
    return first


def _counts(
    labels: Labels,
    names: MetricNames,
    label: str | None,
    models: tuple[str, ...],
    first: Mapping[Rank, Mapping[str, str]],
) -> bool:
    """Whether a series is of a model that counts, and of the first copy."""
    said = dict(labels)
    model = said.get(label or "")
    if model is not None and models and model not in models:
        return False
    least = first.get(_rank(said, names), {})
    return all(said.get(copy, value) == value for copy, value in least.items())


def _models(own: Mapping[str, Mapping[Labels, float]], names: MetricNames, label: str | None) -> tuple[str, ...]:
    """Models the text is of, by name."""
    if label is None:
        return ()
    series = own.get(names.model_of) if names.model_of else None
    return tuple(sorted(_values(own.values() if series is None else [series], label) - {""}))


def _values(series: Iterable[Iterable[Labels]], label: str) -> set[str]:
    return {value for labels_of in series for labels in labels_of for name, value in labels if name == label}


def _notes(series: Iterable[Iterable[Labels]], names: MetricNames, models: tuple[str, ...]) -> tuple[str, ...]:
    """How many things under one address were added up."""
    series = list(series)
    notes = [
        f"{len(values)} engines ({label} {', '.join(sorted(values)[:SHOWN_MODELS])}) under one address: counts and "
        "batches are their sum, shares their mean"
        for label in names.ranks
        if len(values := _values(series, label)) > 1
    ]
    if len(models) > 1:
        shown = ", ".join(models[:SHOWN_MODELS])
        notes.append(f"{len(models)} models under one address ({shown}), added up: name the model to see it alone")
    return tuple(notes)
