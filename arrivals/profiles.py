"""Named workload profiles: lengths, shared prefix, how requests come, and the latency that is wanted, as data.

Every figure carries its source and its kind: measured (of a published trace or data set), asked (what a benchmark
demands, no service was seen to), assumed (plausible, nobody published it). A profile says nothing of how many requests
come: that is the user's.
"""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from infopt.arrivals.traffic import Traffic
from infopt.records import Record, load_record, names_in

FOLDER = Path(__file__).resolve().parent / "data" / "profiles"
Kind = Literal["measured", "asked", "assumed"]


class LengthFigures(Record):
    """Tokens of prompts or answers: mean, standard deviation over mean, and the most."""

    mean_tokens: float
    spread_ratio: float
    most_tokens: int | None = None
    kind: Kind
    spread_kind: Kind
    source: str


class PrefixFigures(Record):
    """What prompts share: the first shared_tokens are one of so many prefixes, asked for by Zipf's law."""

    shared_tokens: int
    prefixes: int
    skew: float
    kind: Kind
    source: str


class ArrivalFigures(Record):
    """How requests come; burstiness_ratio is the coefficient of variation of gaps."""

    process: Literal["steady", "poisson", "gamma", "periodic"]
    burstiness_ratio: float = 1.0
    kind: Kind
    source: str


class Targets(Record):
    """What must hold for this share of the requests; None: nothing is asked."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    share: float
    kind: Kind
    source: str


class Profile(Record):
    """One kind of work; `not_shown` is what a simulation with its figures leaves out."""

    id: str
    what: str
    input: LengthFigures
    output: LengthFigures
    shared: PrefixFigures | None = None
    arrivals: ArrivalFigures
    streaming: bool
    targets: Targets
    not_shown: list[str] = Field([])

    @property
    def traffic(self) -> Traffic:
        """The figures, without where they are from."""
        prefix = self.shared
        return Traffic(
            input_mean_tokens=self.input.mean_tokens,
            input_spread_ratio=self.input.spread_ratio,
            most_input_tokens=self.input.most_tokens,
            output_mean_tokens=self.output.mean_tokens,
            output_spread_ratio=self.output.spread_ratio,
            most_output_tokens=self.output.most_tokens,
            shared_tokens=prefix.shared_tokens if prefix else 0,
            prefixes=prefix.prefixes if prefix else 1,
            skew=prefix.skew if prefix else 0.0,
            process=self.arrivals.process,
            burstiness_ratio=self.arrivals.burstiness_ratio,
            streaming=self.streaming,
        )


def profile_names() -> tuple[str, ...]:
    """Names of all profiles, sorted."""
    return names_in(FOLDER)


@cache
def load_profile(name: str) -> Profile:
    """The profile of this name. Errors: InfoptError listing them where there is none."""
    return load_record(Profile, FOLDER, name, "workload profile", f"known: {', '.join(profile_names())}")
