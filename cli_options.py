"""Options that several commands share: how they are spelled, explained and parsed.

An option family is a dataclass whose fields are annotated with their Typer option. `takes` turns such families into
the parameters of a command, which then receives one record of each instead of thirty arguments.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from infopt.errors import InfoptError
from infopt.units import parse_bytes, parse_count, parse_rate_per_s, parse_seconds, parse_share, parse_tokens, parse_usd

if TYPE_CHECKING:
    from infopt.hardware.accelerator import HardwareChoice
    from infopt.studies.cost import Load, Month, NoMonth
    from infopt.studies.ladder import Knobs
    from infopt.studies.planning import Plan
    from infopt.studies.scenarios import Request

MOST_HOURS = 744
Format = Literal["table", "json", "csv", "md"]


def count(option: str, minimum: int = 1) -> Callable[[str], int]:
    """A parser of whole numbers that names its option when it refuses (defaults pass through it too)."""
    return lambda text: parse_count(str(text), option, minimum)


def tokens(option: str) -> Callable[[str], int]:
    """A parser of token counts; 32k is 32768."""
    return lambda text: parse_tokens(text, option)


def size(option: str) -> Callable[[str], int]:
    """A parser of sizes in bytes; a unit is needed."""
    return lambda text: parse_bytes(text, option)


def share(option: str) -> Callable[[str], float]:
    """A parser of parts of one."""
    return lambda text: parse_share(text, option)


def number(option: str, help: str, minimum: int = 1) -> Any:
    """A Typer option that takes a whole number."""
    return typer.Option(option, parser=count(option, minimum), metavar="N", help=help)


def length(*names: str, help: str) -> Any:
    """A Typer option that takes a number of tokens."""
    return typer.Option(*names, parser=tokens(names[0]), metavar="TOKENS", help=help)


Context = Annotated[
    int | None,
    length("--ctx", "--context", "--max-model-len", help="Context that memory is sized for; 32k = 32768."),
]
Curves = Annotated[bool, typer.Option("--curves", help="Curves in the terminal, under the page.")]
PlotFile = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png|pdf", help="Draw a picture here.")]
PageFile = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE.html", help="Also as one page for a browser: charts, no network."),
]
Online = Annotated[bool, typer.Option("--online", help="Allow looking the model up on the hub.")]
CalibrationOption = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="FILE|auto",
        help="What `infopt probe` measured on this hardware; auto: the newest record of it.",
    ),
]


def named_hardware(text: str, calibration: str | None) -> "HardwareChoice":
    """What `--hw` names, with the figures of `--calibration`."""
    if calibration is None:
        from infopt.hardware.names import resolve_hardware

        return resolve_hardware(text)
    from infopt.hardware.calibrate import resolve_calibrated

    return resolve_calibrated(text, calibration)


def calibration_notes(choices: Iterable["HardwareChoice"]) -> list[str]:
    """Which figures of hardware were measured, for commands whose pages do not say it."""
    return [note for choice in choices for note in choice.accelerator.calibration_notes]


def without_options(words: list[str], left_out: set[str]) -> list[str]:
    """The words without some options and their values."""
    rest: list[str] = []
    skip = False
    for word in words:
        name, equals, _ = word.partition("=")
        if skip or name in left_out:
            skip = not skip and name in left_out and not equals
            continue
        rest.append(word)
    return rest


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """What is served, on what, how placed, under which load."""

    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Short name (70b), org/name[@revision], config.json, folder, .safetensors or .gguf file.",
        ),
    ]
    hw: Annotated[
        str | None,
        typer.Option(
            "--hw",
            metavar="HARDWARE",
            help="h100, h100:8, '2x rtx 4090', p5.48xlarge, custom:80GB:3.35TB/s; auto, cpu[:20GB/s]: this machine's.",
        ),
    ] = None
    gpus: Annotated[int | None, number("--gpus", "Devices in all.")] = None
    tp: Annotated[int | None, number("--tp", "Tensor parallel degree; default: what --gpus leaves.")] = None
    pp: Annotated[int, number("--pp", "Pipeline stages.")] = 1
    dp: Annotated[int, number("--dp", "Replicas; --batch is divided over them.")] = 1
    ep: Annotated[int | None, number("--ep", "Devices that experts are split over.")] = None
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="vllm, sglang, tensorrt-llm, llama.cpp; torch: as probed.")
    ] = "vllm"
    engine_version: Annotated[
        str | None,
        typer.Option("--engine-version", metavar="VERSION", help="Default: the newest with measured constants."),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", metavar="FORMAT", help="bf16, fp8, int4, awq, mxfp4, q4_k_m, ...; default: as stored."
        ),
    ] = None
    kv: Annotated[
        str | None,
        typer.Option(
            "--kv", metavar="FORMAT", help="KV cache: bf16, fp8, int8, ...; default: the model's compute type."
        ),
    ] = None
    ctx: Context = None
    isl: Annotated[int | None, length("--isl", help="Input (prompt) tokens.")] = None
    osl: Annotated[int | None, length("--osl", help="Output tokens.")] = None
    batch: Annotated[int, number("--batch", "Concurrent sequences of the whole deployment.")] = 1
    util: Annotated[
        float | None,
        typer.Option(
            "--util",
            parser=share("--util"),
            metavar="SHARE",
            help="The engine's own memory fraction, 0.9 or 90%, in the engine's own meaning.",
        ),
    ] = None
    max_num_seqs: Annotated[int | None, number("--max-num-seqs", "The engine's limit of running sequences.")] = None
    max_num_batched_tokens: Annotated[
        int | None, length("--max-num-batched-tokens", help="The engine's limit of tokens in one step.")
    ] = None
    kv_pool: Annotated[
        int | None,
        typer.Option(
            "--kv-pool",
            parser=size("--kv-pool"),
            metavar="BYTES",
            help="KV cache of each device, 1GiB, where the engine is told it (--kv-cache-memory-bytes).",
        ),
    ] = None
    block_size: Annotated[
        int | None, length("--block-size", help="Tokens of a block of the cache; default: the engine's.")
    ] = None
    price: Annotated[
        list[str],
        typer.Option(
            "--price", metavar="NAME=USD", show_default=False, help="US dollars per device-hour, h100=2.49; repeatable."
        ),
    ] = field(default_factory=list)
    point: Annotated[
        list[str],
        typer.Option(
            "--point",
            metavar="batch=N,tpot=TIME",
            show_default=False,
            help="A measured point (also isl=, osl=, weights=, hits=) that calibrates the estimate; repeatable.",
        ),
    ] = field(default_factory=list)
    watts: Annotated[
        str | None,
        typer.Option("--watts", metavar="W", help="Measured power of one device, 550W, or a share of its TDP, 70%."),
    ] = None
    calibration: CalibrationOption = None
    text_only: Annotated[bool, typer.Option("--text-only", help="Vision and audio encoders are not loaded.")] = False
    online: Online = False

    def hardware(self) -> "HardwareChoice":
        """The hardware named, as it was measured where a calibration is given, at the user's prices."""
        return self._priced([named_hardware(self.hw or "", self.calibration)])[0]

    def common_hardware(self) -> "list[HardwareChoice]":
        """The hardware compared when none is named, likewise."""
        from infopt.hardware.accelerator import HardwareChoice
        from infopt.hardware.catalogue import common_accelerators, load_accelerator

        devices = (load_accelerator(id) for id in common_accelerators())
        choices = [HardwareChoice(device, None, device.name) for device in devices]
        if self.calibration is not None:
            from infopt.hardware.calibrate import calibrated_where_known

            choices = calibrated_where_known(choices, self.calibration)
        return self._priced(choices)

    def _priced(self, choices: "list[HardwareChoice]") -> "list[HardwareChoice]":
        if not self.price:
            return choices
        from infopt.hardware.prices import apply_prices, parse_prices

        prices = parse_prices(self.price)
        return [apply_prices(choice, prices) for choice in choices]

    def request(self) -> "Request":
        """The part of the options that describes placement and load."""
        from infopt.ledgers.energy import parse_power
        from infopt.studies.scenarios import DEFAULT_POWER, Request

        return Request(
            context_tokens=self.ctx,
            input_tokens=self.isl,
            output_tokens=self.osl,
            batch=self.batch,
            gpus=self.gpus,
            tp=self.tp,
            pp=self.pp,
            dp=self.dp,
            ep=self.ep,
            engine=self.engine,
            engine_version=self.engine_version,
            weights=self.weights,
            kv=self.kv,
            utilization=self.util,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            block_tokens=self.block_size,
            kv_pool_bytes=self.kv_pool,
            text_only=self.text_only,
            points=tuple(self.point),
            power=parse_power(self.watts) if self.watts is not None else DEFAULT_POWER,
        )


@dataclass(frozen=True, slots=True)
class OwnScenario(ScenarioOptions):
    """The scenario's options; the model may be known otherwise: from a deployment file, or as a server names it."""

    model: Annotated[
        str,
        typer.Option("--model", "-m", metavar="MODEL", show_default=False, help="As --model of plan takes it."),
    ] = ""


@dataclass(frozen=True, slots=True)
class MonthOptions:
    """A load to be paid for a month."""

    monthly: Annotated[
        str | None, typer.Option("--monthly", metavar="RATE", help="Requests to serve all month, 5/s: adds its cost.")
    ] = None
    hours: Annotated[float, typer.Option("--hours", metavar="HOURS", help="Hours of that month.")] = 730.0
    baseline_usd: Annotated[
        str | None, typer.Option("--baseline-usd", metavar="USD", help="What the month costs today.")
    ] = None
    one_off_usd: Annotated[
        str | None, typer.Option("--one-off-usd", metavar="USD", help="Cost of the change, to be paid back.")
    ] = None

    def load(self) -> "Load | None":
        """The load, None where no rate is given."""
        given = (("--baseline-usd", self.baseline_usd), ("--one-off-usd", self.one_off_usd))
        if self.monthly is None:
            for option, text in given:
                if text is not None:
                    raise InfoptError(f"{option} without --monthly: say which load, --monthly 5/s")
            return None
        from infopt.studies.cost import Load

        if not 0 < self.hours <= MOST_HOURS:
            raise InfoptError(f"--hours {self.hours:g} is no part of a month: it has at most {MOST_HOURS} hours")
        baseline, one_off = (None if text is None else parse_usd(text, option) for option, text in given)
        return Load(parse_rate_per_s(self.monthly, "--monthly"), self.hours, baseline, one_off)

    def month(self, plan: "Plan") -> "Month | NoMonth | None":
        """The month of the load on deployments like the plan's."""
        load = self.load()
        if load is None:
            return None
        from infopt.studies.cost import month

        return month(plan, load)


@dataclass(frozen=True, slots=True)
class LadderOptions:
    """What the steps of the cost ladder take for granted."""

    ladder: Annotated[bool, typer.Option("--ladder", help="Document 3's cost steps here, beside its own figures.")] = (
        False
    )
    tpot: Annotated[
        str | None, typer.Option("--tpot", metavar="TIME", help="Most time per output token: of --ladder, in curves.")
    ] = None
    drafted: Annotated[int | None, number("--drafted", "Tokens drafted on the ladder; the document has 5.")] = None
    acceptance: Annotated[
        float | None,
        typer.Option(
            "--acceptance", parser=share("--acceptance"), metavar="SHARE", help="Of drafted tokens; default 70%."
        ),
    ] = None
    cache_hits: Annotated[
        float | None,
        typer.Option(
            "--cache-hits", parser=share("--cache-hits"), metavar="SHARE", help="Of prompt tokens; default 70%."
        ),
    ] = None

    @property
    def asked(self) -> bool:
        """Whether the ladder is asked for; its options alone are refused."""
        given = (
            ("--drafted", self.drafted),
            ("--acceptance", self.acceptance),
            ("--cache-hits", self.cache_hits),
        )
        for option, value in given:
            if value is not None and not self.ladder:
                raise InfoptError(f"{option} without --ladder: it belongs to the ladder's steps")
        return self.ladder

    def target_s(self) -> float | None:
        """The most time per output token, None where none is given."""
        target = None if self.tpot is None else parse_seconds(self.tpot, "--tpot")
        if target == 0:
            raise InfoptError("--tpot 0: a target must be more than 0; without --tpot there is none")
        return target

    def knobs(self) -> "Knobs":
        """The options as the study takes them."""
        from infopt.studies.ladder import Knobs

        return Knobs(self.target_s(), self.acceptance, self.drafted, self.cache_hits)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a result is printed."""

    json: Annotated[bool, typer.Option("--json", help="JSON, the same as --format json.")] = False
    format: Annotated[Format, typer.Option("--format", help="Output form.")] = "table"

    @property
    def form(self) -> Format:
        return "json" if self.json else self.format


def takes(*families: type[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of `families`; it is called with one record of each, its own parameters following."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = list(inspect.signature(command).parameters.values())[len(families) :]

        def run(**given: Any) -> Any:
            records = [family(**{f.name: given.pop(f.name) for f in fields(family)}) for family in families]
            return command(*records, **given)

        parameters = [p for family in families for p in _parameters(family)] + own
        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in keyword}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate


def _parameters(family: type[Any]) -> list[inspect.Parameter]:
    """The fields of an option family as parameters, made defaults in place of their factories."""
    parameters = inspect.signature(family).parameters
    made = {f.name: f.default_factory() for f in fields(family) if f.default_factory is not MISSING}
    return [p.replace(default=made.get(name, p.default)) for name, p in parameters.items()]
