"""What every readable form of a search says: load, targets, rows, the chosen deployment."""

from collections.abc import Iterable, Iterator

from infopt.ledgers.estimate import Estimate
from infopt.reports.estimate_words import extrapolated_rows
from infopt.reports.words import counted
from infopt.studies.commands import Command, serve_command
from infopt.studies.planning import Plan
from infopt.studies.search import Deployment, Search, Targets
from infopt.studies.search_relaxation import degrees_of
from infopt.units import format_seconds, format_share, format_usd, format_whole

COLUMNS = (
    "#", "deployment", "layout", "cache", "seqs", "TTFT", "TPOT", "tok/s/GPU", "tok/J", "$/h", "$/Mtok", "spare"
)  # fmt: skip
ALIGNMENT = "rlllrrrrrrrr"
# Rows shown: of the first weight format, of the others; the rest of the front is in CSV and JSON.
SHOWN_FIRST, SHOWN_OTHER = 8, 4
# A dearer row is shown where it is this much faster than those above it, or on another device.
CLEARLY_FASTER = 0.9


def load_words(result: Search) -> str:
    lengths = f"{format_whole(result.input_tokens)} tokens in, {format_whole(result.output_tokens)} out"
    rate = result.targets.rate_per_s
    if rate is None:
        return f"one replica, requests of {lengths}"
    return f"{rate:.4g} requests/s of {lengths}: {format_whole(round(rate * result.output_tokens))} output tokens/s"


def target_words(targets: Targets) -> str:
    words = [
        f"{name} at most {format_seconds(value)}"
        for name, value in (("TTFT", targets.ttft_s), ("TPOT", targets.tpot_s))
        if value is not None
    ]
    if targets.usd_per_hour is not None:
        words.append(f"at most {format_usd(targets.usd_per_hour)} per hour")
    return ", ".join([*words, f"at most {targets.max_gpus} devices"])


def space_words(result: Search) -> str:
    s = result.space
    placed = f"{format_whole(len(s.replicas))} placements on {counted(s.accelerators, 'accelerator')}"
    kept = f"{format_whole(result.feasible)} deployments meet the targets, {len(result.front)} of them are on the front"
    return f"{format_whole(s.looked_at)} scenarios: {placed}, at every concurrency; {kept}"


def unknown_words(result: Search) -> list[str]:
    """What has no estimate: accelerators by number, weight formats by name."""
    s, engine = result.space, result.request.engine
    words = []
    if s.no_estimate:
        have = "accelerator has" if len(s.no_estimate) == 1 else "accelerators have"
        words.append(f"{len(s.no_estimate)} {have} no estimate: nothing was measured there with {engine}")
    if s.no_estimate_formats:
        words.append(f"{', '.join(s.no_estimate_formats)} weights: not measured on every accelerator with {engine}")
    return words


def deployment_words(d: Deployment) -> str:
    return f"{d.replicas} x {d.replica.scenario.accelerator.id}:{d.replica.gpus}"


def layout_words(d: Deployment) -> str:
    return " ".join(f"{name} {n}" for name, n in degrees_of(d.replica))


def cells(number: int, d: Deployment) -> list[str]:
    """One row of the table."""
    joule, usd, per_million = d.tokens_per_joule, d.usd_per_hour, d.usd_per_million_output_tokens
    return [
        str(number),
        deployment_words(d),
        layout_words(d),
        d.replica.scenario.kv_format,
        str(d.sequences),
        format_seconds(d.ttft_s),
        format_seconds(d.tpot_s),
        f"{d.output_tokens_per_s_per_gpu:.0f}",
        "-" if joule is None else f"{joule:.2g}",
        "-" if usd is None else format_usd(usd),
        "-" if per_million is None else format_usd(per_million),
        format_share(round(d.headroom_share, 2)),
    ]


def by_format(result: Search) -> Iterator[tuple[str, list[tuple[int, Deployment]]]]:
    """Rows of each weight format with their numbers on the front."""
    groups: dict[str, list[tuple[int, Deployment]]] = {}
    for number, d in enumerate(result.front, start=1):
        groups.setdefault(d.replica.scenario.weight_format, []).append((number, d))
    yield from groups.items()


def shown(rows: Iterable[tuple[int, Deployment]], limit: int) -> list[tuple[int, Deployment]]:
    """The rows worth a line: the cheapest of each device, and what is clearly faster than all that cost less."""
    kept: list[tuple[int, Deployment]] = []
    fastest, devices = float("inf"), set()
    for number, d in rows:
        device = d.replica.scenario.accelerator.id
        if (device not in devices or d.e2e_s < CLEARLY_FASTER * fastest) and len(kept) < limit:
            kept.append((number, d))
            devices.add(device)
            fastest = min(fastest, d.e2e_s)
    return kept


def shown_numbers(result: Search) -> list[int]:
    """Rows of every format that are shown, the chosen one among them."""
    groups = [group for _, group in by_format(result)]
    limits = [SHOWN_FIRST, *[SHOWN_OTHER] * len(groups)]
    return [
        number
        for group, limit in zip(groups, limits, strict=False)
        for number, _ in chosen_too(result, group, shown(group, limit))
    ]


def tail_rows(result: Search) -> list[list[str]]:
    """What was simulated of the rows that are shown."""
    from infopt.reports import search_tails

    return [
        search_tails.cells(number, deployment_words(d), d, result.tails[number - 1], result.targets)
        for number in shown_numbers(result)
        for d in (result.front[number - 1],)
    ]


def chosen_too(
    result: Search, group: list[tuple[int, Deployment]], kept: list[tuple[int, Deployment]]
) -> list[tuple[int, Deployment]]:
    """The rows that are shown of a format, and the chosen one."""
    numbers = {number for number, _ in kept} | {result.chosen_number}
    return [(number, d) for number, d in group if number in numbers]


def format_note(result: Search, d: Deployment) -> str:
    stored = result.model.quantization.format if result.model.quantization else result.model.compute_dtype
    return "as stored" if d.replica.scenario.weight_format == stored else "may cost quality"


def deployment_facts(d: Deployment, plan: Plan) -> list[tuple[str, str]]:
    """A deployment line by line."""
    s, rate = plan.scenario, d.rate_per_s / d.replicas
    rows = [
        (
            "replicas",
            f"{d.replicas}, each {d.replica.gpus} x {s.accelerator.name or s.accelerator.id}, {layout_words(d)}",
        ),
        (
            "concurrency",
            f"{d.sequences} a replica = {rate:.4g}/s x ({format_seconds(d.ttft_s)} + {s.output_tokens} x "
            f"{format_seconds(d.tpot_s)}), rounded up; the targets hold up to {d.limit}",
        ),
        ("latency", _latency_words(d, plan)),
        ("head-room", f"{format_share(round(d.headroom_share, 3))}: up to {d.capacity_per_s:.3g} requests/s"),
    ]
    if d.usd_per_hour is not None and d.usd_per_million_output_tokens is not None:
        per_million = format_usd(d.usd_per_million_output_tokens)
        rows.append(("cost", f"{format_usd(d.usd_per_hour)} per hour, {per_million} per million output tokens"))
    if d.tokens_per_joule is not None:
        rows.append(("energy", f"{d.tokens_per_joule:.2g} output tokens per joule, were every device at its TDP"))
    return rows


def _latency_words(d: Deployment, plan: Plan) -> str:
    e = plan.estimate
    first, each = format_seconds(d.ttft_s), format_seconds(d.tpot_s)
    if isinstance(e, Estimate):
        first += f" ({format_seconds(e.ttft_low_s)} to {format_seconds(e.ttft_high_s)})"
        each += f" ({format_seconds(e.tpot_low_s)} to {format_seconds(e.tpot_high_s)})"
    return f"TTFT {first}, TPOT {each}, the whole answer {format_seconds(d.e2e_s)}"


def command_of(plan: Plan) -> Command:
    return serve_command(plan.scenario)


def notes(d: Deployment, plan: Plan) -> list[str]:
    """What must be known before trusting a row."""
    found = [caveat.text for caveat in plan.caveats if caveat.id in ("context", "quality", "tight")]
    if isinstance(plan.estimate, Estimate):
        found += [text for _, text in extrapolated_rows(plan.estimate)]
    if d.machines > 1:
        found.append(f"a replica spans {d.machines} machines: the time of links between them is not in the estimate")
    if d.headroom_share < 0.2:
        found.append("the load is its mean: with so little head-room bursts queue")
    return found
