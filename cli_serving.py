"""Options that say how requests are served over time, and what was promised: scheduling, replicas, losses, targets."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from infopt.cli_load import TpotTarget, TtftTarget, above_zero, part
from infopt.cli_options import number
from infopt.errors import InfoptError
from infopt.units import parse_count, parse_seconds, parse_tokens

if TYPE_CHECKING:
    from infopt.simulation.setup import Loss
    from infopt.simulation.summary import Targets
    from infopt.studies.simulate import Choices

WHOLE = "whole"


def chunk_size(text: str) -> int | str:
    """Tokens, or `whole`: prompts are not cut."""
    return WHOLE if str(text) == WHOLE else parse_tokens(str(text), "--chunk")


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """How it is served; what is not given is as the engine does by itself."""

    batching: Annotated[
        Literal["continuous", "static"], typer.Option("--batching", help="Static: a batch starts and ends together.")
    ] = "continuous"
    static_batch: Annotated[int | None, number("--static-batch", "Requests of a static batch.")] = None
    static_wait: Annotated[
        float | None,
        typer.Option(
            "--static-wait",
            parser=lambda text: parse_seconds(str(text), "--static-wait"),
            metavar="TIME",
            help="A static batch that is not full starts after so long.",
        ),
    ] = None
    chunk: Annotated[
        str | None,
        typer.Option(
            "--chunk",
            parser=chunk_size,
            metavar="TOKENS|whole",
            help="Most tokens of one prompt in a step; whole: not cut.",
        ),
    ] = None
    prefill_first: Annotated[
        bool | None,
        typer.Option("--prefill-first/--no-prefill-first", help="Prompts stop answers, or share their steps."),
    ] = None
    prefix_caching: Annotated[
        bool | None, typer.Option("--prefix-caching/--no-prefix-caching", help="Blocks are kept for prompts to come.")
    ] = None
    watermark: Annotated[
        float | None, part("--watermark", "Of the cache that is kept free when a request is let in.")
    ] = None
    by_priority: Annotated[bool, typer.Option("--by-priority", help="Priority goes before order of arrival.")] = False
    max_wait: Annotated[
        float | None,
        typer.Option(
            "--max-wait",
            parser=above_zero("--max-wait", "time"),
            metavar="TIME",
            help="Requests that wait longer than this to be let in are refused.",
        ),
    ] = None
    max_waiting: Annotated[
        int | None, number("--max-waiting", "Requests that may wait at a replica; more are refused.")
    ] = None
    replicas: Annotated[
        int | None, number("--replicas", "Copies of this deployment, each on devices of its own; --dp is inside one.")
    ] = None
    routing: Annotated[
        Literal["round-robin", "random", "least-loaded", "affinity", "scored"],
        typer.Option("--routing", help="How a request finds its replica."),
    ] = "least-loaded"
    lose: Annotated[
        list[str],
        typer.Option(
            "--lose",
            metavar="REPLICA@TIME[+DOWN]",
            show_default=False,
            help="Replica 0 fails at 60 s and is back after 2 min: 0@60s+2min; repeatable.",
        ),
    ] = field(default_factory=list)
    streaming: Annotated[
        bool | None, typer.Option("--streaming/--no-streaming", help="Clients read answers as they come, or whole.")
    ] = None
    abort: Annotated[
        bool, typer.Option("--abort/--no-abort", help="The engine notices that a client has left, or computes on.")
    ] = True

    def choices(self, seed: int, leave_out: bool, streaming: bool | None = None) -> "Choices":
        """The options as the study takes them; `streaming` where they do not say."""
        from infopt.studies.simulate import Choices

        if self.batching == "continuous" and (self.static_batch is not None or self.static_wait is not None):
            raise InfoptError("--static-batch and --static-wait are of static batches: add --batching static")
        if self.batching == "static" and self.static_batch is None and self.static_wait is None:
            raise InfoptError(
                "--batching static: how many are a batch? --static-batch 32, and --static-wait 2s where it may not fill"
            )
        asked = self.streaming if self.streaming is not None else streaming
        return Choices(
            batching=self.batching,
            static_batch=self.static_batch,
            static_wait_s=self.static_wait,
            chunked=False if self.chunk == WHOLE else True if self.chunk is not None else None,
            chunk_tokens=None if self.chunk in (None, WHOLE) else int(self.chunk or 0),
            prefill_first=self.prefill_first,
            prefix_caching=self.prefix_caching,
            watermark_share=self.watermark,
            by_priority=self.by_priority,
            admission_wait_s=self.max_wait,
            most_waiting=self.max_waiting,
            replicas=self.replicas,
            routing=self.routing,
            streaming=True if asked is None else asked,
            aborts=self.abort,
            losses=tuple(parse_loss(text) for text in self.lose),
            seed=seed,
            leave_out=leave_out,
        )


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What users were promised."""

    ttft: TtftTarget = None
    tpot: TpotTarget = None
    e2e: Annotated[
        float | None,
        typer.Option("--e2e", parser=above_zero("--e2e", "time"), metavar="TIME", help="Most time for a whole answer."),
    ] = None
    good: Annotated[float | None, part("--good", "Of the requests that must be within all targets; default 90%.")] = (
        None
    )

    def targets(self) -> "Targets | None":
        """The targets, None where none is given."""
        from infopt.simulation.summary import Targets

        found = Targets(self.ttft, self.tpot, self.e2e)
        return found if found.given else None


def parse_loss(text: str) -> "Loss":
    """`0@60s+2min`: which replica fails, when, and for how long; without an end it stays away.

    >>> parse_loss("1@60s+2min").down_s
    120.0
    """
    from infopt.simulation.setup import Loss

    replica, at, when = (piece.strip() for piece in text.partition("@"))
    time, plus, down = (piece.strip() for piece in when.partition("+"))
    if not at or not replica or not time or (plus and not down):
        raise InfoptError(f"--lose {text}: not REPLICA@TIME[+DOWN], such as 0@60s+2min")
    down_s = parse_seconds(down, "--lose") if plus else None
    if down_s == 0:
        raise InfoptError(f"--lose {text}: down for no time")
    return Loss(parse_count(replica, "--lose", 0), parse_seconds(time, "--lose"), down_s)
