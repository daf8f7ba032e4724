"""Figures of a running engine that rules record, panels show and alerts judge: names and queries."""

from collections.abc import Iterator

from infopt.frozen import dataclass
from infopt.studies.export_queries import Queries


@dataclass(frozen=True, slots=True)
class Figure:
    """One of them.

    id     as alerts and panels call it
    name   of the recorded series: infopt:figure_unit:how
    query  None where the engine has no name for it
    what   in words
    """

    id: str
    name: str
    query: str | None
    what: str


def figures(queries: Queries, good_share: float) -> dict[str, Figure]:
    """All of them by id; `ttft_good` is the first token that `good_share` of the requests have."""
    return {figure.id: figure for figure in _figures(queries, good_share)}


def percentile(share: float) -> str:
    """`p99`; `p99_9` of 0.999, since names have no dot.

    >>> percentile(0.5), percentile(0.999)
    ('p50', 'p99_9')
    """
    return f"p{share * 100:.6g}".replace(".", "_")


def _figures(q: Queries, good_share: float) -> Iterator[Figure]:
    window = q.scope.window
    yield Figure("tpot", f"infopt:tpot_seconds:mean{window}", q.tpot(), "time per output token")
    yield Figure("tpot_p50", f"infopt:tpot_seconds:p50_{window}", q.tpot(0.5), "time per output token by percentile")
    yield Figure("tpot_p99", f"infopt:tpot_seconds:p99_{window}", q.tpot(0.99), "time per output token by percentile")
    yield Figure("step", f"infopt:step_seconds:mean{window}", q.step(), "time of a step")
    yield Figure("ttft", f"infopt:ttft_seconds:mean{window}", q.time("ttft_s"), "time to first token")
    yield Figure(
        "ttft_p50", f"infopt:ttft_seconds:p50_{window}", q.time("ttft_s", 0.5), "time to first token by percentile"
    )
    yield Figure(
        "ttft_p99", f"infopt:ttft_seconds:p99_{window}", q.time("ttft_s", 0.99), "time to first token by percentile"
    )
    if good_share not in (0.5, 0.99):
        name, query = f"infopt:ttft_seconds:{percentile(good_share)}_{window}", q.time("ttft_s", good_share)
        yield Figure(f"ttft_{percentile(good_share)}", name, query, "time to first token by percentile")
    yield Figure("batch", f"infopt:batch_sequences:mean{window}", q.batch(), "sequences in a step")
    yield Figure("running", f"infopt:running_sequences:mean{window}", q.gauge("running"), "running sequences")
    yield Figure("waiting", f"infopt:waiting_sequences:mean{window}", q.gauge("waiting"), "waiting sequences")
    yield Figure("replicas", "infopt:replicas:count", q.replicas(), "replicas")
    yield Figure("kv_use", f"infopt:kv_use_ratio:mean{window}", q.kv_use(), "cache in use")
    yield Figure(
        "prefix_hits", f"infopt:prefix_hit_ratio:rate{window}", q.prefix_hits(), "prompt tokens found in the cache"
    )
    yield Figure("preemptions", f"infopt:preemptions:rate{window}", q.rate("preemptions"), "preemptions")
    yield Figure("tokens_per_step", f"infopt:tokens_per_step:rate{window}", q.tokens_per_step(), "tokens of a step")
    yield Figure(
        "accepted_per_draft",
        f"infopt:accepted_tokens_per_draft:rate{window}",
        q.accepted_per_draft(),
        "accepted tokens of drafts",
    )
    yield Figure("output_tokens", f"infopt:output_tokens:rate{window}", q.rate("output_tokens"), "output tokens")
    yield Figure("finished", f"infopt:finished_requests:rate{window}", q.rate("requests"), "requests")
    yield Figure("arrivals", f"infopt:arriving_requests:rate{window}", q.arrivals(), "requests")
