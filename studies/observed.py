"""An observation in place of what was not given: one rule for `plan`, `boundary`, `checklist` and `observe`.

What a user typed stands; what was left at its default is taken from the observation, and each such figure is said as
an assumption. Lengths are means of the requests, so the decode context is the mean one; the batch is the mean of
sequences in a step, times the replicas; an observed time per output token calibrates the step model as `--point` does,
where steps emit one token.
"""

from dataclasses import replace

from infopt.boundaries.load import Load
from infopt.boundaries.prefix_reuse import most_reuse, reuse_of
from infopt.boundaries.situation import Situation
from infopt.boundaries.steps import Curve
from infopt.errors import InfoptError
from infopt.frozen import dataclass
from infopt.hardware.accelerator import HardwareChoice
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.terms import Caveat
from infopt.observing.observation import Observation, Spread
from infopt.profiles.catalogue import find_in_catalogue, load_catalogue_model
from infopt.profiles.engines import engine_name, engine_names
from infopt.profiles.geometry import ModelProfile
from infopt.studies.planning import Plan, own_constants, plan
from infopt.studies.scenarios import Request, build
from infopt.units import format_bytes

# Tokens per step this near to one are one.
SAME_SHARE = 0.02
# Methods other than n-grams draft in every step; below this share of the steps it is n-grams.
ALWAYS_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Filled:
    """A request and a load with what was observed in the place of what was not given.

    assumed  each figure that was taken from the observation, and why one was not
    """

    request: Request
    load: Load
    assumed: tuple[Caveat, ...]


def with_observed(
    o: Observation | None,
    model: ModelProfile,
    hardware: HardwareChoice,
    request: Request,
    load: Load,
    curve: Curve = (),
) -> Filled:
    """What was observed stands for what was not given; without an observation all stays as it is."""
    if o is None:
        return Filled(request, load, ())
    other = other_model(o.model, model)
    said = [Caveat("model", other)] if other else []
    request = _with_engine(o, request, said)
    request = _with_lengths(o, request, said)
    request = _with_batch(o, request, said)
    request = _with_pool(o, model, hardware, request, said)
    load = _with_prefix(o, model, hardware, request, load, said)
    load = _with_draft(o, load, said)
    request = _calibrated(o, model, hardware, request, load, curve, said)
    return Filled(request, load, tuple(said))


def planned_with(model: ModelProfile, hardware: HardwareChoice, filled: Filled) -> Plan:
    """The plan of what was observed; of the load it knows prompts computed whole and one token a step, and says so."""
    found, prefix, draft = plan(model, hardware, filled.request), filled.load.prefix, filled.load.draft
    left = [name for name, there in (("prefix hits", prefix.hit_share), ("drafts", draft.accepted)) if there]
    said = [c for c in filled.assumed if c.id not in ("prefix", "acceptance")]
    if left:
        said.append(Caveat("observed", f"{' and '.join(left)} were observed; they are in `infopt boundary`, not here"))
    return replace(found, assumptions=(*said, *found.assumptions))


def served_model(name: str) -> str | None:
    """The catalogue's id of the name a server has for a model: an org and name, or a folder's; None where none fits."""
    text = name if name.count("/") == 1 and not name.startswith("/") else name.rstrip("/").rpartition("/")[2]
    try:
        return find_in_catalogue(text)
    except InfoptError:  # several fit
        return None


def other_model(served: str | None, model: ModelProfile) -> str:
    """What to say where the catalogue knows the name of what is served as a model of another size; else nothing."""
    found = served_model(served) if served else None
    if found is None or found == model.id:
        return ""
    known = load_catalogue_model(found)
    if (known.layers, known.hidden) == (model.layers, model.hidden):
        return ""
    return f"the server calls its model {served!r}, which is {found}: another size than {model.id}"


def batch_of(o: Observation) -> float | None:
    """Mean sequences in a step of one server: the gauge's, Little's where there is no gauge; None where neither is."""
    return o.effective_batch if o.effective_batch else o.effective_batch_by_littles_law


def speculates(o: Observation) -> bool:
    """Whether the engine drafts: it counts what is accepted, or steps emit more than one token."""
    more = o.tokens_per_step is not None and o.tokens_per_step > 1 + SAME_SHARE
    return o.acceptance_per_position is not None or more


def observed_speedup(o: Observation, plain: Situation) -> float | None:
    """Time per token expected without drafts over the one observed with them; None where either is not known.

    Where the steps are a curve alone, prompts of others have no time in them; then the median step over its tokens
    stands for the time observed, for prompts are not in that either.
    """
    if not speculates(o) or plain.steps.basis == "floor" or not plain.fits:
        return None
    if plain.steps.shape is not None:
        observed_s = o.mean_s("tpot_s")
    else:
        itl = o.itl_s
        step_s = itl.p50 if isinstance(itl, Spread) else None
        observed_s = step_s / o.tokens_per_step if step_s and o.tokens_per_step else None
    return plain.tpot_s() / observed_s if observed_s else None


def _with_engine(o: Observation, request: Request, said: list[Caveat]) -> Request:
    """The engine observed, where infopt knows it under that name; else it is said whose constants and options stand."""
    if o.engine not in engine_names():
        named = "no engine was named" if o.engine is None else f"{o.engine} has none of its own here"
        said.append(Caveat("engine", f"constants and options are {engine_name(request.engine)}'s: {named}"))
        return request
    if o.engine == engine_name(request.engine):
        return request
    said.append(Caveat("engine", f"engine {o.engine}: observed"))
    return replace(request, engine=o.engine, engine_version=None)


def _with_lengths(o: Observation, request: Request, said: list[Caveat]) -> Request:
    """Mean prompt and answer, each where it was not given; they must fit in a context that was."""
    isl, osl = request.input_tokens, request.output_tokens
    found_in = None if isl is not None else _whole(o.input_tokens_mean)
    found_out = None if osl is not None else _whole(o.output_tokens_mean)
    told = [f"{name} {n}" for name, n in (("input", found_in), ("output", found_out)) if n is not None]
    filled_in, filled_out = isl or found_in, osl or found_out
    if not told or filled_in is None:
        return request
    tokens, ctx = filled_in + (filled_out or 1), request.context_tokens
    if ctx is not None and tokens > ctx:
        said.append(Caveat("lengths", f"observed {' and '.join(told)} tokens do not fit in a context of {ctx}"))
        return request
    said.append(Caveat("lengths", f"{' and '.join(told)} tokens: means observed"))
    return replace(request, input_tokens=filled_in, output_tokens=filled_out)


def _whole(tokens: float | None) -> int | None:
    return None if tokens is None else max(1, round(tokens))


def _with_batch(o: Observation, request: Request, said: list[Caveat]) -> Request:
    batch = batch_of(o)
    if batch is None or request.batch != 1 or round(batch) <= 1:
        return request
    together = round(batch) * request.dp
    by = "" if o.effective_batch else " by Little's law"
    said.append(Caveat("batch", f"batch {together}: observed {batch:.3g} sequences in a step{by}"))
    return replace(request, batch=together)


def _with_pool(
    o: Observation, model: ModelProfile, hardware: HardwareChoice, request: Request, said: list[Caveat]
) -> Request:
    """The engine's own pool where it is smaller than the ledger's: it was told so, or something else holds memory.

    A larger one stays out: that the ledger is wrong about other terms is said beside it, and is no reason to refuse.
    """
    pool = o.kv_pool_bytes
    if not pool or request.kv_pool_bytes is not None or request.dp > 1 or o.engine != engine_name(request.engine):
        return request
    if not 0 < pool < memory_ledger(build(model, hardware, request).scenario).kv_pool_low_bytes:
        return request
    said.append(Caveat("pool", f"pool {format_bytes(pool)} of each device: what the engine says it has"))
    return replace(request, kv_pool_bytes=round(pool))


def _with_prefix(
    o: Observation, model: ModelProfile, hardware: HardwareChoice, request: Request, load: Load, said: list[Caveat]
) -> Load:
    """Observed hits, at most what whole blocks of the mean prompt can give: long prompts may hit more than the mean."""
    hits = o.prefix_hit_share
    if hits is None or load.prefix.hit_share is not None:
        return load
    told = f"prefix hits {hits:.1%} of prompt tokens: observed"
    if hits:
        s = build(model, hardware, request).scenario
        here = Situation(s, load)
        found = reuse_of(here) or most_reuse(here)
        most = found.whole_tokens / s.input_tokens
        if hits > most:
            told += f", taken as the {most:.1%} that blocks of {found.block_tokens} tokens can give here"
            hits = most
    said.append(Caveat("prefix", told))
    return replace(load, prefix=replace(load.prefix, hit_share=hits))


def _with_draft(o: Observation, load: Load, said: list[Caveat]) -> Load:
    """Acceptance by position, and the share of steps that had a draft: only n-grams leave some without."""
    draft, rates = load.draft, o.acceptance_per_position
    if not rates or draft.accepted is not None or draft.acceptance is not None:
        return load
    told = f"acceptance of {len(rates)} positions: observed"
    draft = replace(draft, accepted=tuple(rates))
    if o.draft_share is not None and draft.drafting_share == 1.0:
        told += f", with a draft in {o.draft_share:.0%} of the steps"
        draft = replace(draft, drafting_share=o.draft_share)
        if draft.method is None and draft.scenario is None and o.draft_share < ALWAYS_SHARE:
            told += ": n-grams (--method names another)"
            draft = replace(draft, method="ngram")
    said.append(Caveat("acceptance", told))
    return replace(load, draft=draft)


def _calibrated(
    o: Observation,
    model: ModelProfile,
    hardware: HardwareChoice,
    request: Request,
    load: Load,
    curve: Curve,
    said: list[Caveat],
) -> Request:
    """An observed time per token is a measured point, where steps emit one token and a class can be calibrated."""
    tpot_s, batch = o.mean_s("tpot_s"), batch_of(o)
    if not tpot_s or batch is None or request.points or curve or speculates(o) or load.draft.method is not None:
        return request
    together = max(1, round(batch)) * request.dp
    cached = load.prefix.hit_share if o.prefix_hit_share is not None else None
    hits = f",hits={cached:.6f}" if cached else ""
    pointed = replace(request, points=(f"batch={together},tpot={tpot_s * 1e3:.6f}ms{hits}",))
    try:
        own_constants(build(model, hardware, request).scenario, pointed)
    except InfoptError as error:
        said.append(Caveat("calibration", f"the observed time per token calibrates nothing: {error}"))
        return request
    said.append(Caveat("calibration", f"times calibrated by the observed {tpot_s * 1e3:.3g} ms per token"))
    return pointed
