"""Options that say what arrives: rates, prefixes, drafts, adapters, targets. What is not given is not known."""

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infopt.cli_options import length, number, share
from infopt.errors import InfoptError
from infopt.units import parse_bytes, parse_bytes_per_s, parse_rate_per_s, parse_seconds, parse_share, parse_tokens

if TYPE_CHECKING:
    from infopt.boundaries.load import Load
    from infopt.boundaries.steps import Curve
    from infopt.cli_options import ScenarioOptions

Method = Literal["draft-model", "eagle", "mtp", "ngram", "medusa"]
DRAFT_DEFAULT: Method = "draft-model"


def above_zero(option: str, kind: str) -> Any:
    """A parser of times or rates above zero."""

    def parse(text: str) -> float:
        value = parse_seconds(text, option) if kind == "time" else parse_rate_per_s(text, option)
        if value <= 0:
            raise InfoptError(f"{option} {text}: must be more than 0; leave {option} out where it is not known")
        return value

    return parse


def plain_number(option: str) -> Any:
    """A parser of numbers of at least zero."""

    def parse(text: str) -> float:
        try:
            value = float(str(text))
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e6:
            raise InfoptError(f"{option} {text}: not a number of at least 0")
        return value

    return parse


def part(option: str, help: str) -> Any:
    """A Typer option that takes a part of one."""
    return typer.Option(option, parser=share(option), metavar="SHARE", help=help)


def speed(option: str, help: str) -> Any:
    """A Typer option that takes bytes a second."""
    return typer.Option(
        option, parser=lambda text: parse_bytes_per_s(str(text), option), metavar="BYTES/s", help=f"{help} 50GB/s."
    )


# Of commands beside LoadOptions as well.
SharedPrefixTokens = Annotated[
    int | None,
    typer.Option(
        "--shared-prefix",
        parser=lambda text: 0 if str(text) == "0" else parse_tokens(str(text), "--shared-prefix"),
        metavar="TOKENS",
        help="Tokens of a prompt that others begin with too; 0 for none.",
    ),
]
PrefixCount = Annotated[int | None, number("--prefixes", "Distinct shared prefixes in circulation.")]
PrefixSkew = Annotated[
    float | None,
    typer.Option(
        "--prefix-skew",
        parser=plain_number("--prefix-skew"),
        metavar="S",
        help="Zipf exponent of their popularity: 0 all alike.",
    ),
]
TpotTarget = Annotated[
    float | None,
    typer.Option("--tpot", parser=above_zero("--tpot", "time"), metavar="TIME", help="Most time per output token."),
]
TtftTarget = Annotated[
    float | None,
    typer.Option("--ttft", parser=above_zero("--ttft", "time"), metavar="TIME", help="Most time to first token."),
]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What arrives and what was promised."""

    rate: Annotated[
        float | None,
        typer.Option("--rate", parser=above_zero("--rate", "rate"), metavar="RATE", help="Requests: 5/s, 300/min."),
    ] = None
    output_spread: Annotated[
        float | None,
        typer.Option(
            "--output-spread",
            parser=plain_number("--output-spread"),
            metavar="CV",
            help="Coefficient of variation of output lengths: 0 all equal, 1 exponential.",
        ),
    ] = None
    tpot: TpotTarget = None
    ttft: TtftTarget = None
    start: Annotated[
        float | None,
        typer.Option(
            "--start", parser=above_zero("--start", "time"), metavar="TIME", help="A new replica must serve this soon."
        ),
    ] = None
    shared_prefix: SharedPrefixTokens = None
    prefixes: PrefixCount = None
    prefix_skew: PrefixSkew = None
    hit_share: Annotated[float | None, part("--hit-share", "Measured share of prompt tokens found in the cache.")] = (
        None
    )
    routing: Annotated[
        Literal["random", "least-loaded", "affinity"], typer.Option("--routing", help="How requests find a replica.")
    ] = "random"
    draft: Annotated[
        str | None, typer.Option("--draft", metavar="MODEL", help="A draft model, as --model takes it.")
    ] = None
    method: Annotated[Method | None, typer.Option("--method", help="How drafts are made.")] = None
    alpha: Annotated[
        str | None,
        typer.Option(
            "--alpha",
            metavar="RATE|A,B,..",
            help="Acceptance: one rate, or the share of cycles that accept at least 1, 2, .. tokens.",
        ),
    ] = None
    drafted: Annotated[int | None, number("--drafted", "Tokens drafted in a cycle; default: the best.")] = None
    drafting_share: Annotated[float | None, part("--drafting-share", "Part of the steps that have a draft.")] = None
    cycle_ratio: Annotated[
        float | None,
        typer.Option(
            "--cycle-ratio",
            parser=plain_number("--cycle-ratio"),
            metavar="RATIO",
            help="Measured duration of a cycle in plain steps.",
        ),
    ] = None
    to_weights: Annotated[
        str | None, typer.Option("--to-weights", metavar="FORMAT", help="Weight format asked about.")
    ] = None
    to_kv: Annotated[str | None, typer.Option("--to-kv", metavar="FORMAT", help="Cache format asked about.")] = None
    offload: Annotated[
        Literal["dram", "nvme", "remote"], typer.Option("--offload", help="Where cached tokens would go.")
    ] = "dram"
    offload_bandwidth: Annotated[float | None, speed("--offload-bandwidth", "What one device reads from there.")] = None
    offload_capacity: Annotated[
        float | None,
        typer.Option(
            "--offload-capacity",
            parser=lambda text: float(parse_bytes(str(text), "--offload-capacity")),
            metavar="BYTES",
            help="What it holds, of the whole host or store.",
        ),
    ] = None
    reuse_share: Annotated[
        float | None, part("--reuse-share", "Prompt tokens computed before that have left the pool.")
    ] = None
    endurance: Annotated[
        float | None,
        typer.Option(
            "--endurance",
            parser=lambda text: float(parse_bytes(str(text), "--endurance")),
            metavar="BYTES",
            help="What an NVMe drive may be written in its life.",
        ),
    ] = None
    link_bandwidth: Annotated[
        float | None, speed("--link-bandwidth", "Of one device's link to others of its machine, one direction.")
    ] = None
    network: Annotated[float | None, speed("--network", "Of one device to other machines, one direction.")] = None
    storage_bandwidth: Annotated[
        float | None, speed("--storage-bandwidth", "At which weights are read at a start.")
    ] = None
    adapters: Annotated[int | None, number("--adapters", "LoRA adapters held at once.")] = None
    rank: Annotated[int | None, number("--rank", "Their rank.")] = None
    adapters_total: Annotated[int | None, number("--adapters-total", "LoRA adapters, or models, in all.")] = None
    semantic_hits: Annotated[
        float | None, part("--semantic-hits", "Requests answered from a cache of whole answers.")
    ] = None
    image_tokens: Annotated[
        int | None, length("--image-tokens", help="Of a prompt that come from images, beside --isl.")
    ] = None
    eager: Annotated[bool, typer.Option("--eager", help="Kernels are launched one by one, without CUDA graphs.")] = (
        False
    )
    chunk: Annotated[int | None, length("--chunk", help="Prefill tokens in one step; default: the engine's.")] = None
    step_curve: Annotated[
        str | None,
        typer.Option(
            "--step-curve",
            metavar="TOKENS=TIME,..",
            help="Measured step times against tokens in a step: 1=25ms,4=27ms; replaces the step model.",
        ),
    ] = None

    def load(self, scenario: "ScenarioOptions") -> "Load":
        """The load these options describe, for the scenario of the others."""
        from infopt.boundaries.load import Adapters, Draft, Links, Load, Offload, Prefix, Targets, Traffic

        method = self.method or (DRAFT_DEFAULT if self.draft is not None else None)
        if self.draft is not None and method not in ("draft-model", "eagle"):
            raise InfoptError(f"--method {method} takes no --draft: leave one of them out")
        rates = parse_acceptance(self.alpha)
        draft = Draft(
            method=method,
            drafted_tokens=self.drafted,
            accepted=rates if len(rates) > 1 else None,
            acceptance=rates[0] if len(rates) == 1 else None,
            drafting_share=1.0 if self.drafting_share is None else self.drafting_share,
            cycle_ratio=self.cycle_ratio,
        )
        if self.draft is not None:
            from infopt.profiles.resolve import resolve_model
            from infopt.studies.boundary import draft_scenario

            profile = resolve_model(self.draft, online=scenario.online)
            beside = draft_scenario(profile, scenario.hardware(), scenario.request())
            draft = replace(draft, scenario=beside)
        return Load(
            traffic=Traffic(self.rate, self.output_spread),
            prefix=Prefix(self.shared_prefix, self.prefixes, self.prefix_skew, self.hit_share, self.routing),
            draft=draft,
            offload=Offload(
                self.offload, self.offload_bandwidth, self.offload_capacity, self.reuse_share, self.endurance
            ),
            adapters=Adapters(self.adapters, self.rank, self.adapters_total),
            targets=Targets(self.tpot, self.ttft, self.start),
            links=Links(self.link_bandwidth, self.network),
            storage_bytes_per_s=self.storage_bandwidth,
            semantic_hit_share=self.semantic_hits,
            image_tokens=self.image_tokens or 0,
            weight_format=self.to_weights,
            kv_format=self.to_kv,
            eager=self.eager,
            chunk_tokens=self.chunk,
        )

    def curve(self) -> "Curve":
        """The measured step curve, empty where none is given."""
        return parse_curve(self.step_curve) if self.step_curve is not None else ()


def parse_acceptance(text: str | None) -> tuple[float, ...]:
    """One rate, or unconditional shares by position, which cannot rise.

    >>> parse_acceptance("0.7"), parse_acceptance(".54, .36,.26"), parse_acceptance(None)
    ((0.7,), (0.54, 0.36, 0.26), ())
    """
    if text is None:
        return ()
    rates = tuple(parse_share(piece.strip(), "--alpha") for piece in text.split(","))
    if any(later > earlier for earlier, later in itertools.pairwise(rates)):
        raise InfoptError(
            f"--alpha {text}: a later position cannot be accepted more often than an earlier one; "
            "give the share of cycles that accept at least 1, 2, .. tokens"
        )
    return rates


def parse_curve(text: str) -> "Curve":
    """`1=25ms,2=28.8ms` as points in order of their tokens.

    >>> parse_curve("2=30ms,1=25ms")
    ((1.0, 0.025), (2.0, 0.03))
    """
    from infopt.boundaries.steps import checked_curve

    points = []
    for piece in text.split(","):
        tokens, equals, seconds = (side.strip() for side in piece.partition("="))
        if not equals:
            raise InfoptError(f"--step-curve {text}: {piece.strip()!r} is not TOKENS=TIME, such as 4=27ms")
        count = parse_tokens(tokens, "--step-curve")
        points.append((float(count), parse_seconds(seconds, "--step-curve")))
    return checked_curve(points)
