"""Options that say what arrives over time: a rate, users or a trace; how it comes, how long it is, who sends it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from infopt.cli_load import PrefixCount, PrefixSkew, SharedPrefixTokens, above_zero, part, plain_number
from infopt.cli_options import number
from infopt.errors import InfoptError
from infopt.units import parse_count, parse_seconds, parse_share

if TYPE_CHECKING:
    from infopt.arrivals.traffic import Sender
    from infopt.studies.offered import Offer


def more_than_zero(option: str) -> object:
    """A parser of numbers above zero."""
    plain = plain_number(option)

    def parse(text: str) -> float:
        value = float(plain(text))
        if not value:
            raise InfoptError(f"{option} {text}: must be more than 0")
        return value

    return parse


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """What arrives."""

    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            parser=above_zero("--rate", "rate"),
            metavar="RATE",
            help="Requests: 8/s, 300/min; of a trace: replayed at this mean rate.",
        ),
    ] = None
    users: Annotated[
        int | None, number("--users", "Instead of a rate: so many, each sends its next request after an answer.")
    ] = None
    think: Annotated[
        float | None,
        typer.Option(
            "--think",
            parser=lambda text: parse_seconds(str(text), "--think"),
            metavar="TIME",
            help="Mean time between an answer and the user's next request.",
        ),
    ] = None
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace", metavar="NAME|FILE", help="Recorded requests: azure-conv, azure-code, mooncake, a file."
        ),
    ] = None
    speedup: Annotated[
        float | None,
        typer.Option(
            "--speedup", parser=more_than_zero("--speedup"), metavar="X", help="Replay a trace X times as fast."
        ),
    ] = None
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="NAME",
            help="Lengths, prefixes, arrivals and targets of a kind of work: interactive, batch, long-context, ...",
        ),
    ] = None
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            "--limit",
            parser=lambda text: parse_count(str(text), "--requests"),
            metavar="N",
            help="How many; of a trace the first N. Default: 2000, or all of a trace.",
        ),
    ] = None
    duration: Annotated[
        float | None,
        typer.Option("--duration", parser=above_zero("--duration", "time"), metavar="TIME", help="Or for how long."),
    ] = None
    arrivals: Annotated[
        Literal["steady", "poisson", "gamma", "periodic"] | None,
        typer.Option("--arrivals", help="How they come: evenly, by chance (default), in bursts, in waves."),
    ] = None
    burstiness: Annotated[
        float | None,
        typer.Option(
            "--burstiness",
            parser=more_than_zero("--burstiness"),
            metavar="CV",
            help="Coefficient of variation of gaps between gamma arrivals: 1 is by chance, 4 is bursty.",
        ),
    ] = None
    period: Annotated[
        float | None,
        typer.Option("--period", parser=above_zero("--period", "time"), metavar="TIME", help="Of periodic arrivals."),
    ] = None
    peak: Annotated[
        float | None,
        typer.Option(
            "--peak", parser=more_than_zero("--peak"), metavar="RATIO", help="Their peak over mean rate, 1 to 2."
        ),
    ] = None
    input_spread: Annotated[
        float | None,
        typer.Option(
            "--input-spread",
            parser=plain_number("--input-spread"),
            metavar="CV",
            help="Coefficient of variation of prompt lengths, whose mean is --isl: 0 all equal.",
        ),
    ] = None
    output_spread: Annotated[
        float | None,
        typer.Option(
            "--output-spread",
            parser=plain_number("--output-spread"),
            metavar="CV",
            help="The same of answers: 0 all equal, 1 exponential.",
        ),
    ] = None
    shared_prefix: SharedPrefixTokens = None
    prefixes: PrefixCount = None
    prefix_skew: PrefixSkew = None
    tenant: Annotated[
        list[str],
        typer.Option(
            "--tenant",
            metavar="NAME=SHARE[:PRIORITY]",
            show_default=False,
            help="Who sends which share of the requests; priority 0 goes first (--by-priority); repeatable.",
        ),
    ] = field(default_factory=list)
    cancel: Annotated[float | None, part("--cancel", "Of the clients that leave in the middle of their answer.")] = None
    patience: Annotated[
        float | None,
        typer.Option(
            "--patience",
            parser=above_zero("--patience", "time"),
            metavar="TIME",
            help="Clients leave when the answer is not whole after so long.",
        ),
    ] = None
    leave_out_long: Annotated[
        bool,
        typer.Option("--leave-out-long", help="Leave out requests longer than the engine accepts; else an error."),
    ] = False
    seed: Annotated[int, number("--seed", "Of all chance; the same seed gives the same requests.", minimum=0)] = 0

    def offer(self) -> "Offer":
        """The options as the study takes them."""
        from infopt.studies.offered import Offer

        return Offer(
            rate_per_s=self.rate,
            users=self.users,
            think_s=self.think,
            requests=self.requests,
            duration_s=self.duration,
            process=self.arrivals,
            burstiness_ratio=self.burstiness,
            period_s=self.period,
            peak_ratio=self.peak,
            input_spread_ratio=self.input_spread,
            output_spread_ratio=self.output_spread,
            shared_tokens=self.shared_prefix,
            prefixes=self.prefixes,
            skew=self.prefix_skew,
            workload=self.workload,
            trace=self.trace,
            speed_ratio=self.speedup,
            cancel_share=self.cancel,
            patience_s=self.patience,
            tenants=tuple(parse_tenant(text) for text in self.tenant),
            leave_out=self.leave_out_long,
            seed=self.seed,
        )


def parse_tenant(text: str) -> "Sender":
    """`paid=30%:0`: a name, its share of the requests and its priority.

    >>> parse_tenant("paid=30%:0").share
    0.3
    """
    from infopt.arrivals.traffic import Sender

    name, equals, rest = (piece.strip() for piece in text.partition("="))
    share, colon, priority = (piece.strip() for piece in rest.partition(":"))
    if not equals or not name or not share or (colon and not priority):
        raise InfoptError(f"--tenant {text}: not NAME=SHARE[:PRIORITY], such as paid=30%:0")
    if not name.isprintable():
        raise InfoptError(f"--tenant {text!r}: a name has printable characters only")
    part_of_all = parse_share(share, "--tenant")
    if not part_of_all:
        raise InfoptError(f"--tenant {text}: a share must be more than 0")
    return Sender(name=name, share=part_of_all, priority=parse_count(priority, "--tenant", 0) if priority else 0)
