"""Refresh the tables of docs/served_rates.md: `simulate` beside published load tests.

    python tools/docs_served_rates.py [--check | --rows]

Each row of tests/data/served_rates.csv is simulated as its benchmark ran it: as many requests, nothing left out as
warm-up, figures over all requests as the client prints them, output tokens over the time until the last answer.
With --check nothing is written and the status says whether the page is current; --rows prints every row.
"""

import csv
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles

from infopt.arrivals.synthetic import Lengths, SharedPrefix, Synthetic
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.profiles.resolve import resolve_model
from infopt.simulation.deployment import simulate
from infopt.simulation.outcome import Outcome
from infopt.simulation.setup import Setup
from infopt.simulation.summary import Targets, summary
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request
from infopt.studies.simulate import Choices, Job, ready_of

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "served_rates.csv"
PAGE = ROOT / "docs" / "served_rates.md"
FIGURES = ("ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms", "tpot_mean_ms", "tpot_p50_ms", "tpot_p99_ms")
FIGURES += ("itl_mean_ms", "e2e_mean_ms", "e2e_p99_ms", "output_tokens_per_s")
# A run whose median wait is more than so many times that of a request alone is one in which requests queue.
QUEUES_RATIO = 5.0

Row = dict[str, str]
Figures = dict[str, float]


@dataclass(frozen=True)
class Compared:
    """A load test, and what is simulated of it: expected, with the shortest and with the longest steps.

    alone_ms  wait of a request that nobody else is beside;  mixture  whether the model is one of experts
    reason    why there is no simulation
    """

    row: Row
    measured: Figures
    expected: Figures
    low: Figures
    high: Figures
    alone_ms: float
    mixture: bool = False
    reason: str = ""

    @property
    def queues(self) -> tuple[bool, bool]:
        """Whether requests queued, as measured and as simulated."""
        wait = "ttft_p50_ms" if "ttft_p50_ms" in self.measured else "ttft_mean_ms"
        most_ms = QUEUES_RATIO * self.alone_ms
        return self.measured[wait] > most_ms, self.expected[wait] > most_ms

    def error(self, figure: str) -> float:
        return self.expected[figure] / self.measured[figure] - 1

    def held(self, figure: str) -> bool:
        ends = sorted((self.low[figure], self.high[figure]))
        return ends[0] <= self.measured[figure] <= ends[1]


def read_rows() -> list[Row]:
    with DATA.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def compared(row: Row) -> Compared:
    """One load test simulated."""
    measured = {figure: float(row[figure]) for figure in FIGURES if row[figure]}
    try:
        job = job_of(row)
        ready = ready_of(job, plan(job.model, job.hardware, job.request))
        outcome = simulate(job.source, ready.setup)
    except InfoptError as error:
        return Compared(row, measured, {}, {}, {}, math.nan, reason=str(error))
    batch = summary(outcome, Targets()).step_batch
    ends = ready.ends(max(1, round(batch)))
    low, high = (client_figures(simulate(job.source, setup), job) for setup in ends)
    mixture = any(run.feed_forward.experts for run in job.model.groups)
    alone_ms = 1e3 * alone_s(job, ready.setup)
    return Compared(row, measured, client_figures(outcome, job), low, high, alone_ms, mixture)


def job_of(row: Row) -> Job:
    """The simulation of a load test."""
    isl, osl = float(row["isl_tokens"]), float(row["osl_tokens"])
    inputs, outputs = Lengths(isl, float(row["input_spread"])), Lengths(osl, float(row["output_spread"]))
    repeated = SharedPrefix(16 * int(isl)) if row["prompts"] == "repeated" else None
    gap_ratio = float(row["gap_ratio"])
    source = Synthetic(
        inputs,
        outputs,
        process="poisson" if gap_ratio == 1 else "gamma",
        rate_per_s=_number(row["rate_per_s"]) or 0.0,
        requests=int(row["requests"]),
        burstiness_ratio=gap_ratio,
        users=_count(row["users"]),
        shared=repeated,
        given_warmup_s=0.0,
    )
    request = Request(
        input_tokens=round(isl),
        output_tokens=round(osl),
        tp=int(row["tp"]),
        engine=row["engine"],
        engine_version=row["version"],
        weights=row["weights"] or None,
        kv=row["kv"] or None,
        utilization=_number(row["utilization"]),
        max_num_batched_tokens=_count(row["batched_tokens"]),
    )
    caching = None if not row["prefix_caching"] else row["prefix_caching"] != "no"
    choices = Choices(replicas=int(row["replicas"]), prefix_caching=caching, saturation=False)
    return Job(resolve_model(row["model"]), resolve_hardware(row["hw"]), request, source, choices)


def _number(text: str) -> float | None:
    return float(text) if text else None


def _count(text: str) -> int | None:
    return int(text) if text else None


def alone_s(job: Job, setup: Setup) -> float:
    """Wait of the mean prompt where nothing else is in the deployment."""
    source = job.source
    assert isinstance(source, Synthetic)
    one = Synthetic(
        Lengths(source.inputs.mean_tokens), Lengths(2), "steady", 1e-3, 2, shared=source.shared, given_warmup_s=0.0
    )
    return simulate(one, setup).rows.ttft_s[-1]


def client_figures(outcome: Outcome, job: Job) -> Figures:
    """What the client of a benchmark prints."""
    rows = outcome.rows
    several = [(tpot, n - 1) for tpot, n in zip(rows.tpot_s, rows.output_tokens, strict=True) if n > 1]
    tpot = [one for one, _ in several]
    source = job.source
    assert isinstance(source, Synthetic)
    last_s = max(sent + e2e for sent, e2e in zip(rows.sent_s, rows.e2e_s, strict=True))
    found = {
        "itl_mean": math.fsum(one * n for one, n in several) / sum(n for _, n in several),
        **_times("ttft", rows.ttft_s),
        **_times("tpot", tpot),
        **_times("e2e", rows.e2e_s),
    }
    tokens_per_s = len(rows) * source.outputs.mean_tokens / last_s
    return {**{f"{name}_ms": 1e3 * seconds for name, seconds in found.items()}, "output_tokens_per_s": tokens_per_s}


def _times(name: str, seconds: Iterable[float]) -> Figures:
    values = list(seconds)
    hundredths = quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    return {f"{name}_mean": fmean(values), f"{name}_p50": hundredths[49], f"{name}_p99": hundredths[98]}


GROUPS = ("dense", "mixture", "prompts seen before", "requests queue", "closed loop")
# What is shown of each group: a name, and the figures that have it, the first that was measured counting.
SHOWN = (
    ("TTFT", ("ttft_mean_ms", "ttft_p50_ms")),
    ("TTFT p99", ("ttft_p99_ms",)),
    ("TPOT", ("tpot_mean_ms", "itl_mean_ms")),
    ("output tokens/s", ("output_tokens_per_s",)),
)


def group(one: Compared) -> str:
    """The group of a load test; the first that holds."""
    if one.row["users"]:
        return "closed loop"
    if one.queues[0]:
        return "requests queue"
    if one.row["prompts"] == "repeated":
        return "prompts seen before"
    return "mixture" if one.mixture else "dense"


@dataclass(frozen=True)
class Errors:
    """Of one figure in one group: rows, median of signed and of absolute relative errors, share inside the interval."""

    rows: int
    bias_ratio: float
    error_ratio: float
    held_share: float


def errors(found: Iterable[Compared], figures: tuple[str, ...]) -> Errors | None:
    """Errors of the first of these figures that each load test has; None where none has any."""
    pairs = [(one, next((name for name in figures if name in one.measured), None)) for one in found]
    known = [(one, name) for one, name in pairs if name is not None]
    if not known:
        return None
    signed = [one.error(name) for one, name in known]
    held = sum(one.held(name) for one, name in known) / len(known)
    return Errors(len(known), median(signed), median(abs(error) for error in signed), held)


def table(found: list[Compared]) -> list[str]:
    lines = ["| group | figure | n | bias | error | interval |", "|---|---|---:|---:|---:|---:|"]
    for name in GROUPS:
        for shown, figures in SHOWN:
            e = errors((one for one in found if group(one) == name), figures)
            if e is not None:
                held = f"{100 * e.held_share:.0f}%"
                lines.append(f"| {name} | {shown} | {e.rows} | {e.bias_ratio:+.0%} | {e.error_ratio:.0%} | {held} |")
    return lines


def summary_lines(found: list[Compared]) -> list[str]:
    """How many rows there are, what has no step times, and whether requests queue where they did."""
    simulated = [one for one in found if not one.reason]
    sources, every = ({one.row["source"].split("/blob/")[0] for one in some} for some in (simulated, found))
    calm = [one for one in simulated if not one.queues[0]]
    agree = sum(one.queues[0] == one.queues[1] for one in simulated)
    missing = sorted({one.row["hw"].split(":")[0] for one in found if one.reason})
    return [
        f"{len(simulated)} of {len(found)} load tests are simulated ({len(sources)} of {len(every)} sources);",
        f"the others ran on devices without step times ({', '.join(missing)}).",
        f"In {len(calm)} nobody queued. Simulated and measured agree on that in {agree} of {len(simulated)}.",
    ]


def page_of(found: list[Compared], page: str) -> str:
    """The page with its table computed anew."""
    begin, end = "<!-- table: begin -->", "<!-- table: end -->"
    before, rest = page.split(begin)
    lines = [*summary_lines(found), "", *table([one for one in found if not one.reason])]
    return "\n".join([before + begin, *lines, end + rest.split(end)[1]])


def print_rows(found: list[Compared]) -> None:
    for one in found:
        print(one.row["id"], one.reason[:90] or f"alone {one.alone_ms:.0f} ms", end=" ")
        for figure in one.measured if not one.reason else ():
            mark = "" if one.held(figure) else "!"
            print(f"{figure} {one.measured[figure]:.4g}:{one.expected[figure]:.4g}{mark}", end=" ")
        print()


def main() -> None:
    found = [compared(row) for row in read_rows()]
    if "--rows" in sys.argv[1:]:
        return print_rows(found)
    page = PAGE.read_text(encoding="utf-8")
    fresh = page_of(found, page)
    if "--check" in sys.argv[1:]:
        sys.exit(0 if fresh == page else 1)
    PAGE.write_text(fresh, encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
