"""What was observed of a running engine: `infopt observe --json` writes it, `--observed` reads it in place of guesses.

Keys of the contract (DESIGN section 4) are read strictly; keys that are not known here are kept by name only, since
the contract may grow. A time is a number or an object of mean, p50, p90, p99.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from infopt.errors import InfoptError
from infopt.profiles.files import read_json_file
from infopt.records import Record, validate_record

SCHEMA = "infopt/observe/1"
MOST_TOKENS = 1e12  # of a request
LEAST_S = 1e-9
MOST_AMOUNT = 1e24  # what the options take at most (units.py); nothing that runs comes near it
Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Amount = Annotated[FiniteFloat, Field(ge=0, le=MOST_AMOUNT)]
# window: what grew between two scrapes; totals: all since the server's start, by one scrape; benchmark: a client's.
Kind = Literal["window", "totals", "benchmark"]


class Spread(Record):
    """A time over many requests, seconds.

    count      observations behind it, None where it is not known
    is_bucket  percentiles are interpolated in the buckets of a histogram, not taken from values
    """

    mean: Amount | None = None
    p50: Amount | None = None
    p90: Amount | None = None
    p99: Amount | None = None
    count: Amount | None = None
    is_bucket: bool = False


def spread_of(where: str, mean: float | None, count: float, **said: Any) -> Spread:
    """A time of these figures. Errors: InfoptError naming `where` and the figure that no time can be."""
    return validate_record(Spread, {"mean": mean, "count": float(count), **said}, where)


class Observation(Record):
    """One observation; None is "the source does not say", never zero.

    engine, version_guess  whose metrics these are (engine_names(), or a client's name for it)
    model                  as the server calls it
    source                 address without credentials, or the file
    kind, window_s         what the figures are over, and how long that took (None for totals of unknown age)
    taken                  UTC, ISO 8601

    effective_batch        mean sequences in a step of one server, by its gauge or from tokens and steps
    effective_batch_by_littles_law  output tokens/s x time per output token, or requests/s x time in the server
    waiting                mean requests queued
    tpot_s                 per output token of a request after its first
    itl_s                  between two outputs of one sequence: a step, however many tokens it gives
    ttft_s, e2e_s, queue_s, prefill_s  of a request
    tokens_per_step        a sequence emits (1 without speculation), counted over all steps, those without a draft too
    draft_share            part of those steps that had a draft
    drafted_tokens         mean tokens of a draft
    acceptance_per_position  share of drafts that accept at least 1, 2, ... tokens
    requests, prompt_tokens, output_tokens  finished or counted in the window
    steps                  of the engine in the window (batched steps, prompts included)
    prefix_caching         whether the engine keeps prefixes, as its configuration or queries say
    prefix_hit_share       of prompt tokens
    preemptions            in the window
    kv_use_share, kv_use_peak_share  of the pool, mean and most over the scrapes
    kv_pool_tokens, kv_pool_bytes, block_tokens, blocks, max_concurrency  as the engine says of its pool
    read_bytes_per_s, flop_per_s  per device, by the engine's own account
    bandwidth_utilization  bytes a step needs over what the device could have read in its time
    notes                  what a reader must know: a restart, few requests, a moving load
    unknown_names          metrics of this engine nobody has looked at yet
    ignored                keys of a file that are not known here
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)

    engine: str | None = None
    version_guess: str | None = None
    model: str | None = None
    source: str | None = None
    kind: Kind | None = None
    window_s: Amount | None = None
    taken: str | None = None
    effective_batch: Amount | None = None
    effective_batch_by_littles_law: Amount | None = None
    waiting: Amount | None = None
    tpot_s: Amount | Spread | None = None
    itl_s: Amount | Spread | None = None
    ttft_s: Amount | Spread | None = None
    e2e_s: Amount | Spread | None = None
    queue_s: Amount | Spread | None = None
    prefill_s: Amount | Spread | None = None
    tokens_per_step: Amount | None = None
    draft_share: Share | None = None
    drafted_tokens: Amount | None = None
    acceptance_per_position: tuple[Share, ...] | None = None
    requests: Amount | None = None
    prompt_tokens: Amount | None = None
    output_tokens: Amount | None = None
    steps: Amount | None = None
    prefix_caching: bool | None = None
    prefix_hit_share: Share | None = None
    preemptions: Amount | None = None
    kv_use_share: Share | None = None
    kv_use_peak_share: Share | None = None
    kv_pool_tokens: Amount | None = None
    kv_pool_bytes: Amount | None = None
    block_tokens: Amount | None = None
    blocks: Amount | None = None
    max_concurrency: Amount | None = None
    read_bytes_per_s: Amount | None = None
    flop_per_s: Amount | None = None
    bandwidth_utilization: Amount | None = None
    notes: tuple[str, ...] = ()
    unknown_names: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _goes_together(self) -> "Observation":
        rates = self.acceptance_per_position or ()
        if any(later > earlier for earlier, later in itertools.pairwise(rates)):
            raise ValueError("acceptance_per_position rises: it is the share of cycles that accept at least 1, 2, ..")
        for name in ("tpot_s", "itl_s"):
            if 0 < (self.mean_s(name) or 0.0) < LEAST_S:
                raise ValueError(f"{name} is {self.mean_s(name):g} s: nothing an engine does takes so little")
        for name, mean in (("prompt", self.input_tokens_mean), ("output", self.output_tokens_mean)):
            if mean is not None and mean > MOST_TOKENS:
                raise ValueError(f"{name}_tokens / requests is {mean:g}: no request has so many tokens")
        return self

    def mean_s(self, name: str) -> float | None:
        """The mean of a time, its median where only that is there."""
        value = getattr(self, name)
        if isinstance(value, Spread):
            return value.mean if value.mean is not None else value.p50
        return None if value is None else float(value)

    def tail_s(self, name: str) -> float | None:
        """The 99th percentile of a time, the 90th where only that is there."""
        value = getattr(self, name)
        if not isinstance(value, Spread):
            return None
        return value.p99 if value.p99 is not None else value.p90

    @property
    def requests_per_s(self) -> float | None:
        """Requests finished in a second of the window."""
        return None if self.requests is None or not self.window_s else self.requests / self.window_s

    @property
    def output_tokens_per_s(self) -> float | None:
        """Tokens generated in a second of the window."""
        return None if self.output_tokens is None or not self.window_s else self.output_tokens / self.window_s

    @property
    def input_tokens_mean(self) -> float | None:
        """Prompt tokens of a request."""
        return None if self.prompt_tokens is None or not self.requests else self.prompt_tokens / self.requests

    @property
    def output_tokens_mean(self) -> float | None:
        """Output tokens of a request."""
        return None if self.output_tokens is None or not self.requests else self.output_tokens / self.requests

    @property
    def is_silent(self) -> bool:
        """Whether no figure of the load is known: neither counts nor times."""
        return all(getattr(self, name) is None for name in (*WORK, *TIMES))

    @property
    def is_idle(self) -> bool:
        """Whether nothing was served: counts say so, and no request has a time."""
        return not (self.is_silent or any(getattr(self, name) for name in (*WORK, *TIMES)))

    def plain(self) -> dict[str, Any]:
        """As it is written: the contract's keys, null where nothing is known."""
        return {"schema": SCHEMA, **self.model_dump(mode="json", exclude={"ignored"})}


TIMES = ("tpot_s", "itl_s", "ttft_s", "e2e_s", "queue_s", "prefill_s")
WORK = ("requests", "output_tokens", "prompt_tokens", "effective_batch", "effective_batch_by_littles_law")
WRITES = "`infopt observe SOURCE --out FILE` writes one (--row N, where SOURCE holds several results)"
# What is said of a value, by the name the check has for it.
WRONG = {
    "greater_than_equal": "is below {ge:g}",
    "less_than_equal": "is above {le:g}",
    "float_type": "is no number",
    "tuple_type": "is no list",
    "string_type": "is no text",
    "bool_type": "is neither true nor false",
    "extra_forbidden": "is not a part of it",
}
# What `observe --json` has beside the observation itself.
SAID = ("schema", "beside", "checklist", "advice", "measure_next", "start_log", "error")


def read_observation(path: Path) -> Observation:
    """An observation from a JSON file.

    Errors: InfoptError for what is no JSON object, is of another schema, holds none of an observation's keys, a value
    of the wrong kind, a share above 1.
    """
    data = read_json_file(path)
    if data.get("schema") not in (None, SCHEMA):
        raise InfoptError(f"{path}: is {str(data['schema'])[:60]}, not {SCHEMA}: {WRITES}")
    known = {name: _listed(value) for name, value in data.items() if name in Observation.model_fields}
    known.pop("ignored", None)
    if not known:
        raise InfoptError(f"{path}: has no key of an observation; {WRITES}")
    strange = tuple(str(name)[:60] for name in data if name not in known and name not in SAID)
    if "schema" not in data and len(strange) > len(known):
        raise InfoptError(f"{path}: is no observation, though it has {', '.join(known)}; {WRITES}")
    try:
        return Observation.model_validate({**known, "ignored": strange})
    except ValidationError as error:
        raise InfoptError(f"{path}: {_problem(error, known)}") from error


def _listed(value: Any) -> Any:
    """JSON's lists as the tuples of a frozen record, its null percentiles left out."""
    if isinstance(value, Mapping):
        return {str(name): item for name, item in value.items() if item is not None}
    return tuple(value) if isinstance(value, list) else value


def _problem(error: ValidationError, known: Mapping[str, Any]) -> str:
    """The first thing that is wrong, with the value: of a time, of the form it has."""
    found = error.errors(include_url=False)
    first = found[0]
    if first["loc"] and first["loc"][0] in TIMES:
        value = known[str(first["loc"][0])]
        if not isinstance(value, Mapping | int | float) or isinstance(value, bool):
            return f"{first['loc'][0]}: seconds, or an object of mean, p50, p90 and p99, is expected"
        form = "Spread" if isinstance(value, Mapping) else first["loc"][-1]
        first = next((one for one in found if one["loc"][:2] == (first["loc"][0], form)), first)
    where = ".".join(str(part) for index, part in enumerate(first["loc"]) if index != 1 or first["loc"][0] not in TIMES)
    if first["type"] not in WRONG:
        return ": ".join(part for part in (where, first["msg"].removeprefix("Value error, ")) if part)
    return f"{where}: {first['input']!r:.40} {WRONG[first['type']].format(**first.get('ctx', {}))}"
