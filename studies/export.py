"""What a plan says of the engine that will run, as queries in its own metric names: for rules and for a dashboard."""

import math
import re
from collections.abc import Iterator, Sequence

from infopt.boundaries.load import Load
from infopt.boundaries.situation import Situation
from infopt.errors import InfoptError, UndeterminedError
from infopt.files import BROKEN_NAMES
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.estimate import Estimate
from infopt.observing.metric_names import MetricNames
from infopt.profiles.engines import engine_name
from infopt.profiles.geometry import ModelProfile
from infopt.studies.export_alerts import Alert, Called, LeftOut, alerts
from infopt.studies.export_figures import Figure, figures, percentile
from infopt.studies.export_panels import Panel, panels
from infopt.studies.export_queries import TARGET_LABELS, Queries, Scope, named_metrics, quoted
from infopt.studies.export_thresholds import thresholds
from infopt.studies.offered import GOOD_SHARE
from infopt.studies.planning import Plan, own_constants, plan
from infopt.studies.scenarios import Request

LABEL = "infopt_plan"  # of everything that is recorded: which plan it is held against
LEAST_WINDOW_S = 300  # four scrapes a minute apart, and one that is late
REQUESTS_IN_WINDOW = 3  # a window holds whole requests: some engines count their tokens when they end
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the running engine is to be found and judged.

    metrics     whose names its /metrics has, where not the engine's own
    served      what it calls the model; None for the model's id
    matches     label=value that its series have
    prefix      of its names, where a collector has written another one
    name        of the plan, on everything recorded; None for one made of model and hardware
    good_share  of the requests that must be within the target of the first token
    unknown_fits  export though a fact of the memory ledger is missing
    """

    metrics: str | None = None
    served: str | None = None
    matches: Sequence[str] = ()
    prefix: str | None = None
    name: str | None = None
    good_share: float = GOOD_SHARE
    unknown_fits: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the head of a dashboard: the values of a label of the series that every server has."""

    name: str
    label: str
    query: str
    current: str | None = None

    @property
    def matcher(self) -> str:
        """What it chooses: one value, or some."""
        return f'{self.label}{"=~" if self.current is None else "="}"${self.name}"'


@dataclass(frozen=True, slots=True)
class Export:
    """A plan as queries.

    name     of the plan, on everything recorded
    window   of rates and means
    figures  what is recorded, selected by the served model's name
    panels   the same for a dashboard, selected by its variables
    notes    what to know of this engine's figures
    """

    name: str
    plan: Plan
    metrics: MetricNames
    served: str
    window: str
    figures: tuple[Figure, ...]
    alerts: tuple[Alert, ...]
    left_out: tuple[LeftOut, ...]
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...]
    notes: tuple[str, ...]


class DoesNotFitError(InfoptError):
    """There is nothing to watch: the plan does not fit."""

    exit_status = 1


def export(model: ModelProfile, hardware: HardwareChoice, request: Request, load: Load, wanted: Wanted) -> Export:
    """The plan with its queries.

    Errors: DoesNotFitError and UndeterminedError by the plan's verdict; InfoptError for an engine without known
    metrics, and for matches and prefixes that are none.
    """
    if not 0 < wanted.good_share <= 1:
        raise InfoptError(f"--good {wanted.good_share:g}: no part of the requests; more than 0, at most 1")
    names = named_metrics(wanted.metrics, engine_name(request.engine))
    matches, prefix = [match_of(text, names) for text in wanted.matches], _prefix(wanted.prefix, names)
    found = plan(model, hardware, request)
    _need_fit(found, wanted.unknown_fits)
    situation = Situation(found.scenario, load, own_constants(found.scenario, request))
    numbers = thresholds(found, situation, wanted.good_share)
    served, window = wanted.served or model.id, _window(found)
    name = wanted.name or f"{served} on {found.scenario.gpus} x {found.scenario.accelerator.id}"
    _need_text(served, name, *(value for _, value in matches))
    replicas = found.scenario.dp if names.in_front else None
    own = [(label, served) for label in names.model_label[:1]]
    recorded = Queries(names, Scope(_matchers([*own, *matches]), window, prefix, replicas))
    variables = tuple(_variables(recorded, matches, served))
    chosen = ",".join([*(variable.matcher for variable in variables), *map(_matcher, matches)])
    shown = Queries(names, Scope(chosen, "$window", prefix, replicas))
    known = figures(recorded, wanted.good_share)
    raised, left_out = alerts(numbers, _called(known, recorded, name, wanted.good_share), names.engine)
    return Export(
        name=name,
        plan=found,
        metrics=names,
        served=served,
        window=window,
        figures=tuple(figure for figure in known.values() if figure.query is not None),
        alerts=raised,
        left_out=left_out,
        panels=panels(found, figures(shown, wanted.good_share), numbers, wanted.good_share),
        variables=variables,
        notes=tuple(_notes(names)),
    )


def _need_fit(found: Plan, unknown_fits: bool) -> None:
    where = f"{found.scenario.model.id} on {found.scenario.gpus} x {found.scenario.accelerator.id}"
    if found.fits is False:
        why = "; ".join(found.memory.refusals) or "not enough memory"
        raise DoesNotFitError(f"nothing is exported: {where} does not fit: {why}; infopt plan says what would")
    if found.fits is None and not unknown_fits:
        why = "; ".join(found.memory.unknown) or "constants of this engine version are not known well enough"
        raise UndeterminedError(f"nothing is exported: whether {where} fits is not known: {why}; --allow-undetermined")


def _need_text(*names: str) -> None:
    """Refuse names of bytes that are no UTF-8: neither YAML nor a label holds them."""
    for name in names:
        if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
            shown = name.encode("utf-8", BROKEN_NAMES).decode()
            raise InfoptError(f"{shown}: not UTF-8, so no series has it; name the model as the engine does, --served")


def _called(known: dict[str, Figure], queries: Queries, name: str, good_share: float) -> dict[str, Called]:
    """What alerts call the figures: recorded series of this plan alone; series that every server has, as they are."""
    of_plan = f"{{{LABEL}={quoted(name)}}}"
    called = {
        id: Called(None if figure.query is None else f"{figure.name}{of_plan}", figure.what)
        for id, figure in known.items()
    }
    present = Called(queries.present(), "running sequences")
    return called | {"ttft_good": called[f"ttft_{percentile(good_share)}"], "present": present}


def _window(found: Plan) -> str:
    """Whole minutes that hold some requests from their first token to their last."""
    e, seconds = found.estimate, float(LEAST_WINDOW_S)
    if isinstance(e, Estimate):
        request_s = e.ttft_high_s + found.scenario.output_tokens * e.tpot_high_s
        seconds = max(seconds, REQUESTS_IN_WINDOW * request_s)
    return f"{math.ceil(seconds / 60)}m"


def match_of(text: str, names: MetricNames) -> tuple[str, str]:
    """`namespace=prod` as label and value.

    Errors: InfoptError for what is no label, or one that is chosen otherwise.
    """
    label, equals, value = text.partition("=")
    if not equals or not LABEL_NAME.fullmatch(label) or not value:
        raise InfoptError(f"--match {text}: not LABEL=VALUE, such as namespace=prod")
    if label in names.model_label[:1]:
        raise InfoptError(f"--match {text}: the model's name is --served {quoted(value)}")
    if label in TARGET_LABELS[1:] or label == "__name__":
        raise InfoptError(f"--match {text}: rules are of every {label}; name what they share, such as job or namespace")
    return label, value


def _prefix(text: str | None, names: MetricNames) -> str:
    if text is None or text == names.prefixes[0]:
        return names.prefixes[0]
    if text not in names.also:
        also = ", ".join((names.prefixes[0], *names.also)) if names.also else "no other one is known"
        raise InfoptError(f"--metric-prefix {text}: no prefix of {names.engine}: {also}")
    return text


def _matcher(pair: tuple[str, str]) -> str:
    return f"{pair[0]}={quoted(pair[1])}"


def _matchers(pairs: Sequence[tuple[str, str]]) -> str:
    return ",".join(map(_matcher, pairs))


def _variables(queries: Queries, matches: Sequence[tuple[str, str]], served: str) -> Iterator[Variable]:
    """Job, model and instance, each among those that the ones before leave."""
    own = [(label, "model", served) for label in queries.names.model_label[:1]]
    chosen = [*map(_matcher, matches)]
    for label, name, current in (("job", "job", None), *own, ("instance", "instance", None)):
        variable = Variable(name, label, f"label_values({queries.selector(chosen)}, {label})", current)
        yield variable
        chosen.append(variable.matcher)


def _notes(names: MetricNames) -> Iterator[str]:
    yield from names.said
    ways = (way for ways in names.times.values() for way in ways if way.rate is None)
    yield from dict.fromkeys(way.said for way in ways if way.said)
