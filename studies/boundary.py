"""Every optimization in one scenario: gain, verdict, where that flips; what is in use re-prices the others."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from infopt.boundaries.image_tokens import with_image_tokens
from infopt.boundaries.load import Load
from infopt.boundaries.registry import bounded, judge, technique, techniques
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Curve
from infopt.boundaries.technique import VERDICTS, Boundary, Technique
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.scenario import Scenario, allowed_tensor_parallel
from infopt.ledgers.terms import Caveat
from infopt.profiles.engine_flags import engine_flags
from infopt.profiles.engines import engine_name
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import own_constants
from infopt.studies.scenarios import Request, build

if TYPE_CHECKING:
    from infopt.studies.prefix_trace import PrefixTrace


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Techniques answered in one situation.

    applied      techniques in use (`--with`), as they were named
    assumptions  what was filled in
    trace        a trace through the prefix cache, where one was asked about (`--trace`)
    """

    situation: Situation
    applied: tuple[str, ...]
    techniques: tuple[Boundary, ...]
    assumptions: tuple[Caveat, ...]
    trace: "PrefixTrace | None" = None


def boundaries(
    model: ModelProfile,
    hardware: HardwareChoice,
    request: Request,
    load: Load,
    curve: Curve = (),
    applied: Sequence[str] = (),
    only: Sequence[Technique] = (),
) -> Boundaries:
    """Techniques in the order of their gain; `only` those given, else all that are not in use.

    Errors: InfoptError for a placement no engine runs, an unknown technique, one that cannot be combined.
    """
    situation, assumptions = situated(model, hardware, request, load, curve, applied)
    asked = only or [t for t in techniques() if t.id not in situation.used]
    found = sorted((bounded(t, situation) for t in asked), key=rank)
    return Boundaries(situation, tuple(applied), tuple(found), assumptions)


def situated(
    model: ModelProfile,
    hardware: HardwareChoice,
    request: Request,
    load: Load,
    curve: Curve = (),
    applied: Sequence[str] = (),
) -> tuple[Situation, tuple[Caveat, ...]]:
    """The situation that techniques are judged in, those in use included, and what was filled in."""
    built = build(model, hardware, request)
    scenario = with_image_tokens(built.scenario, load.image_tokens) if load.image_tokens else built.scenario
    scenario.check()
    start = Situation(scenario, load, own_constants(scenario, request), curve)
    return with_techniques(start, applied), built.assumptions


def with_techniques(situation: Situation, applied: Sequence[str]) -> Situation:
    """The situation with techniques in use, one on top of the other: `kv-fp8`, `speculative`, `weights=int4`."""
    for text in applied:
        found, argument = named(text)
        if found.apply is None:
            raise InfoptError(f"--with {text}: {found.id} changes no ledger of the others; leave it out")
        answer = judge(found, situation)
        if answer.verdict == "impossible":
            raise InfoptError(f"--with {text}: {answer.reason}")
        situation = found.apply(situation, argument)
    return situation


def named(text: str) -> tuple[Technique, str]:
    """A technique and its argument: the argument follows `=`, or a dash after the name or an alias (`kv-fp8`)."""
    name, equals, argument = text.partition("=")
    if equals:
        return technique(name), argument.strip()
    for known in techniques():
        for alias in (known.id, *known.aliases):
            if text.lower().startswith(f"{alias}-"):
                rest = text[len(alias) + 1 :]
                if not any(rest and t.id == text.lower() for t in techniques()):
                    return known, rest
    return technique(text), ""


def rank(found: Boundary) -> tuple[int, float, str]:
    """Verdicts in their order, then the best gain first; what makes an impossible situation possible has no ratio."""
    answer = found.judgement
    none = math.inf if answer.verdict == "use" else 0.0
    return VERDICTS.index(answer.verdict), -(answer.gain.value if answer.gain else none), found.technique.id


def draft_scenario(model: ModelProfile, hardware: HardwareChoice, request: Request) -> Scenario:
    """A draft model beside the target: on the same devices where its heads divide over them, else on one."""
    gpus = request.gpus or hardware.gpus or (request.tp or 1) * request.pp * request.dp
    tp = request.tp or max(1, gpus // (request.pp * request.dp))
    placed = tp if tp in allowed_tensor_parallel(model) else 1
    # Servers load a draft as it is stored; an engine that serves one file serves both in one format.
    weights = request.weights if engine_flags(engine_name(request.engine)).model_is_file else None
    beside = replace(request, gpus=placed * request.dp, tp=placed, pp=1, ep=None, weights=weights, points=())
    alone = replace(hardware, gpus=None, usd_per_hour=None)
    return build(model, alone, beside).scenario
