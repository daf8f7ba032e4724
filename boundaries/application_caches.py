"""Answers kept in front of the model: a question that was asked before, in other words, never reaches it.

    gain = 1 / ((1 - h) + l)      h requests answered from the cache, l lookup over the work of a request
l is one pass of an embedding model over the prompt: 2 P_e n FLOP over the FLOP of the request (an upper bound: decode
takes more time than its FLOP). Below saturation a machine is not needed less: the gain is in cost where devices go.
What a wrong hit costs, no ledger knows; it stays an item of the checklist.
A prompt cache as an API price is here as figures; on one's own machine it is the prefix cache.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from infopt.boundaries.deciding import checked_yaml, plain_verdict, threshold
from infopt.boundaries.image_tokens import image_figures
from infopt.boundaries.prefix_gains import saturation_per_s
from infopt.boundaries.quantities import Quantity
from infopt.boundaries.situation import Situation
from infopt.boundaries.technique import Figure, Gain, Judgement, Metric, Rule, Technique
from infopt.errors import InfoptError
from infopt.ledgers.answer_cache import api_saved_share, cost_ratio, needed_hit_share, needed_uses

MEASURE_HITS = "--semantic-hits SHARE (look logged questions up in an index of the answers, and read the hits)"
RULE = "a semantic cache answers 30% of queries, so 1.43x as many are served; a prompt cache at 70% hits, 3.3x"
RISK = "a wrong hit answers another question: the owner must answer for the similarity and what a wrong one costs"


def judge(situation: Situation) -> Judgement:
    """Whether answers found in a cache pay for the lookups."""
    hits = situation.load.semantic_hit_share
    if hits is not None and not 0 <= hits <= 1:
        raise InfoptError(f"--semantic-hits {hits:g}: not a share between 0 and 1")
    figures, lookup = tuple(_figures(situation)), lookup_ratio(situation)
    least = needed_hit_share(threshold("worth_ratio"), lookup)
    rule = Rule(3, RULE, None)
    if situation.memory.kv_pool_bytes_per_gpu <= 0:
        return Judgement("impossible", None, "the model does not fit: there is nothing to save", figures, rule=rule)
    if hits is None:
        if least >= 1:
            return Judgement(
                "skip",
                None,
                f"a lookup takes {lookup:.0%} of the work of a request, which no hits pay back",
                figures,
                rule=rule,
            )
        reason = f"hits are not known; it pays from {least:.1%} of requests answered by the cache"
        return Judgement("measure", None, reason, figures, (RISK,), rule, MEASURE_HITS)
    ratio = 1 / max(cost_ratio(hits, lookup), 1e-6)
    metric: Metric = "cost" if _idle(situation) else "throughput"
    says = plain_verdict(1 / cost_ratio(_data("document_hits"), lookup))
    verdict, gain = plain_verdict(ratio), Gain(ratio, ratio, ratio, metric)
    why = "30% is of traffic with common questions, and 1 / (1 - hits) holds for whole answers, not for prompts"
    rule = replace(rule, says=says, why=why)
    return Judgement(verdict, gain, _reason(situation, hits, ratio), figures, tuple(_costs(situation)), rule)


def lookup_ratio(situation: Situation) -> float:
    """l: one pass of an embedding model over the prompt, in FLOP of a request."""
    s, compute = situation.scenario, situation.compute
    lookup_flop = 2.0 * _data("embedding_params") * s.input_tokens
    return lookup_flop / (compute.prefill_flop + s.output_tokens * compute.decode_flop_per_token)


def _idle(situation: Situation) -> bool:
    """Whether the rate is known to be below what the deployment can serve."""
    rate, memory = situation.load.traffic.rate_per_s, situation.memory
    if rate is None or situation.steps.shape is None or not memory.max_sequences:
        return False
    return rate < saturation_per_s(situation, memory.max_sequences, situation.steps)


def _reason(situation: Situation, hits: float, ratio: float) -> str:
    saved = f"{hits:.0%} of requests never reach the model: "
    if ratio < 1:
        return f"{saved}lookups take more work than that saves ({ratio:.2f}x)"
    if _idle(situation):
        return f"{saved}{1 - 1 / ratio:.0%} less work (saves cost only if devices are given back)"
    return f"{saved}{ratio:.2f}x as many are served"


def _costs(situation: Situation) -> Iterator[str]:
    yield RISK
    yield "no use for answers that change by the hour or by the user; entries need an expiry and a tenant"
    if situation.load.prefix.shared_tokens:
        yield "repeated questions no longer reach the model: the rest may share fewer prefixes"


def _figures(situation: Situation) -> Iterator[Figure]:
    load, s, lookup = situation.load, situation.scenario, lookup_ratio(situation)
    least = min(1.0, needed_hit_share(threshold("worth_ratio"), lookup))
    yield Figure(
        "lookup_ratio",
        lookup,
        "ratio",
        f"lookup's work over a request's (embedding of {_data('embedding_params') / 1e6:.0f}M parameters)",
    )
    yield Figure("hits_to_pay", least, "share", "of requests must be hits to gain 10%")
    if load.semantic_hit_share is not None:
        cost = cost_ratio(load.semantic_hit_share, lookup)
        yield Figure("cost_ratio", cost, "ratio", "work of a mean request with the cache over that without")
        if load.traffic.rate_per_s is not None:
            left = load.traffic.rate_per_s * (1 - load.semantic_hit_share)
            yield Figure("model_rate_per_s", left, "requests/s", "rate that still reaches the model")
    shared = None if load.prefix.shared_tokens is None else min(1.0, load.prefix.shared_tokens / s.input_tokens)
    prices = _data("read_price"), _data("write_price")
    most = None if shared is None else api_saved_share(shared, 1e9, *prices)
    yield Figure("api_input_saving_share", most, "share", "of input price that a provider's prompt cache saves at most")
    yield Figure(
        "api_uses_to_pay",
        needed_uses(1.0, 0.0, *prices),
        "uses",
        "of a prefix that pay for writing it to a provider's prompt cache",
    )
    yield from image_figures(situation)


@cache
def _table() -> dict[str, Any]:
    data: dict[str, Any] = checked_yaml("application_caches")
    return data


def _data(name: str) -> float:
    return float(_table()[name]["value"])


def _with_hits(situation: Situation, share: float) -> Situation:
    return situation.changed(load=replace(situation.load, semantic_hit_share=share))


HITS = Quantity(
    name="semantic-hits",
    unit="share",
    whole=False,
    low=0,
    high=lambda _: 1.0,
    get=lambda situation: situation.load.semantic_hit_share,
    set=_with_hits,
    share=True,
)
TECHNIQUE = Technique(
    id="application-caches",
    name="Application caches",
    ledger="requests",
    order=5,
    judge=judge,
    quantities=(HITS,),
    aliases=("semantic", "semantic-cache"),
)
