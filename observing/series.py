"""Which series of a text count: those of the model that was asked for, of one copy of each rank, with usable values."""

import math
from collections.abc import Iterable, Mapping

from infopt.frozen import dataclass
from infopt.observing.metric_names import MetricNames
from infopt.probes.metrics_text import Labels, Metrics

SHOWN_MODELS = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """The series that count.

    models    whose they are
    unusable  names of series left out since they are negative or no number
    notes     what was added up
    """

    metrics: Metrics
    models: tuple[str, ...]
    unusable: tuple[str, ...]
    notes: tuple[str, ...]


def choose(metrics: Metrics, names: MetricNames, model: str | None) -> Chosen:
    """The series of one engine that count; names of others stay as they are."""
    own = {name: series for name, series in metrics.series.items() if name.startswith(tuple(names.prefixes))}
    models = _models(own, names)
    kept_models = (model,) if model in models else models
    first = {label: _first(own.values(), label) for label in names.copies}
    unusable: set[str] = set()
    kept: dict[str, dict[Labels, float]] = {}
    for name, series in metrics.series.items():
        if name not in own:
            kept[name] = dict(series)
            continue
        for labels, value in series.items():
            said = dict(labels)
            label = said.get(names.model_label or "")
            if label is not None and kept_models and label not in kept_models:
                continue
            if any(said.get(copy, value_0) != value_0 for copy, value_0 in first.items()):
                continue
            if not (math.isfinite(value) and value >= 0):
                unusable.add(name)
                continue
            kept.setdefault(name, {})[labels] = value
    return Chosen(Metrics(kept, 0), kept_models, tuple(sorted(unusable)), _notes(own.values(), names, kept_models))


def _models(own: Mapping[str, Mapping[Labels, float]], names: MetricNames) -> tuple[str, ...]:
    """Models the text is of, by name."""
    if names.model_label is None:
        return ()
    series = own.get(names.model_of) if names.model_of else None
    return tuple(sorted(_values(own.values() if series is None else [series], names.model_label) - {""}))


def _values(series: Iterable[Iterable[Labels]], label: str) -> set[str]:
    return {value for labels_of in series for labels in labels_of for name, value in labels if name == label}


def _first(series: Iterable[Iterable[Labels]], label: str) -> str:
    """The least value of a label; "" where no series has it."""
    return min(_values(series, label), default="", key=lambda text: (len(text), text))


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
