"""Properties of the ledgers, and numbers anybody can check by hand."""

from dataclasses import replace

import numpy as np
import pytest
import scenarios as make
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.ledgers.bandwidth import bandwidth_ledger
from infopt.ledgers.cache import model_cache
from infopt.ledgers.compute import attention_prefill_flop, compute_ledger, decode_flop_per_token, prefill_flop
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import stages
from infopt.ledgers.traffic import distinct_experts, traffic
from infopt.ledgers.weights import padded_vocab
from infopt.profiles.formats import load_kv_format
from infopt.profiles.geometry import LayerRun

WINDOWED = make.model(
    [LayerRun(5, make.attention(window=1024), make.DENSE), LayerRun(1, make.attention(), make.DENSE)] * 4
)
HYBRID = make.model([LayerRun(3, make.recurrent(), make.DENSE), LayerRun(1, make.attention(), make.DENSE)] * 8)
LATENT = make.model([LayerRun(8, make.latent(), make.MIXTURE)])
MODELS = [make.model(), WINDOWED, HYBRID, LATENT, make.model([LayerRun(16, make.attention(), make.MIXTURE)])]
any_model = st.sampled_from(MODELS)


def test_llama_8b_by_hand():
    s = make.scenario(batch=4, context_tokens=8192)
    ledger = memory_ledger(s)
    assert ledger.kv_bytes_per_token == 2 * 32 * 8 * 128 * 2
    assert ledger.kv_bytes_per_sequence == 8192 * 131072
    assert ledger.kv_bytes_per_gpu == 4 * 8192 * 131072
    floor = bandwidth_ledger(s)
    read = s.model.params_active * 2
    assert floor.weight_bytes_per_step == pytest.approx(read, rel=1e-6)
    assert floor.step_floor_s == pytest.approx((read + 4 * 8192 * 131072) / 3.35e12, rel=1e-6)
    assert floor.amortized_s_per_token == floor.step_floor_s / 4


@given(any_model, st.integers(1, 60_000), st.integers(1, 60_000), st.integers(1, 64))
def test_more_context_never_needs_less(model, short, more, batch):
    near = memory_ledger(make.scenario(model, context_tokens=short + 3, batch=batch))
    far = memory_ledger(make.scenario(model, context_tokens=short + 3 + more, batch=batch))
    assert far.kv_bytes_per_gpu >= near.kv_bytes_per_gpu
    assert far.kv_bytes_per_sequence >= near.kv_bytes_per_sequence
    assert far.max_sequences <= near.max_sequences


@given(any_model, st.integers(4, 60_000), st.integers(1, 256), st.sampled_from([1, 2, 4, 8]))
def test_terms_sum_to_the_total_and_the_verdict_follows(model, context, batch, tp):
    s = make.scenario(model, context_tokens=context, batch=batch, tp=tp, gpus=tp)
    ledger = memory_ledger(s)
    assert sum(term.value for term in ledger.terms) == pytest.approx(ledger.used_bytes_per_gpu, rel=1e-12)
    if ledger.fits:
        assert ledger.used_bytes_per_gpu <= ledger.capacity_bytes_per_gpu + ledger.layout.block_bytes
        assert ledger.max_sequences >= batch
        assert ledger.max_context_tokens >= context
    assert ledger.kv_pool_low_bytes <= ledger.kv_pool_bytes_per_gpu <= ledger.kv_pool_high_bytes


@given(any_model, st.integers(4, 60_000))
def test_reserved_is_never_less_than_logical(model, context):
    s = make.scenario(model, context_tokens=context)
    ledger = memory_ledger(s)
    logical = ledger.kv_bytes_per_sequence + ledger.state_bytes_per_sequence
    assert ledger.kv_bytes_per_gpu >= logical * (1 - 1e-12)


@given(any_model, st.sampled_from([2, 4, 8]))
def test_shards_hold_at_least_the_whole(model, tp):
    whole = memory_ledger(make.scenario(model)).weights_bytes_per_gpu
    shard = memory_ledger(make.scenario(model, tp=tp, gpus=tp)).weights_bytes_per_gpu
    assert shard * tp >= whole * (1 - 1e-12)
    assert shard < whole


def test_kv_heads_are_replicated_beyond_their_number():
    few = make.model([LayerRun(32, make.attention(kv_heads=2), make.DENSE)])
    at2 = memory_ledger(make.scenario(few, tp=2, gpus=2)).kv_bytes_per_gpu
    at8 = memory_ledger(make.scenario(few, tp=8, gpus=8)).kv_bytes_per_gpu
    assert at2 == at8


def test_a_latent_is_never_split():
    one = memory_ledger(make.scenario(LATENT)).kv_bytes_per_gpu
    assert memory_ledger(make.scenario(LATENT, tp=8, gpus=8)).kv_bytes_per_gpu == one


@given(any_model, st.floats(1e11, 1e13))
def test_doubling_bandwidth_halves_the_floor(model, bandwidth):
    slow = bandwidth_ledger(make.scenario(model, make.device(bandwidth=bandwidth)))
    fast = bandwidth_ledger(make.scenario(model, make.device(bandwidth=2 * bandwidth)))
    assert fast.step_floor_s == pytest.approx(slow.step_floor_s / 2)


@given(st.integers(1, 512), st.integers(1, 512))
def test_distinct_experts_between_k_and_all(experts, batch):
    k = max(1, experts // 8)
    read = distinct_experts(experts, k, batch)
    assert k - 1e-9 <= read <= experts + 1e-9


@pytest.mark.parametrize("model", MODELS)
def test_arrays_equal_scalars(model):
    tokens = np.array([1, 100, 1024, 1025, 40_000])
    cache = model_cache(model, load_kv_format("bf16"))
    for formula in (
        cache.kv_bytes_per_sequence,
        lambda n: decode_flop_per_token(model, n),
        lambda n: prefill_flop(model, n),
        lambda n: distinct_experts(64.0, 6.0, n),
    ):
        np.testing.assert_allclose(formula(tokens), [formula(int(n)) for n in tokens], rtol=1e-12)


def test_large_products_do_not_wrap():
    flop = prefill_flop(make.model(), np.array([10**9]))
    assert flop[0] > 1e19


def test_windowed_prefill_is_a_band():
    window = make.attention(window=100)
    full = make.attention()
    assert attention_prefill_flop(window, 100) == attention_prefill_flop(full, 100)
    per_token = attention_prefill_flop(window, 2001) - attention_prefill_flop(window, 2000)
    assert per_token == pytest.approx(2 * 32 * 256 * 100)


def test_ridge_batch_balances_memory_and_compute():
    s = make.scenario(context_tokens=128, batch=1)
    bandwidth = bandwidth_ledger(s)
    ridge = compute_ledger(s, bandwidth).ridge_batch
    assert ridge is not None
    there = replace(s, batch=round(ridge))
    step = bandwidth_ledger(there)
    compute = compute_ledger(there, step)
    assert compute.decode_compute_s == pytest.approx(step.step_floor_s, rel=0.01)


def test_no_ridge_where_kv_reads_outgrow_compute():
    s = make.scenario(context_tokens=131072)
    assert compute_ledger(s, bandwidth_ledger(s)).ridge_batch is None


@given(st.integers(1, 16))
def test_stages_hold_every_layer_once(pp):
    cut = stages(WINDOWED, pp)
    sizes = [sum(run.layers for run in stage) for stage in cut]
    assert sum(sizes) == WINDOWED.layers
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)
    flat = [run.mixer.kind for stage in cut for run in stage for _ in range(run.layers)]
    assert flat == [run.mixer.kind for run in WINDOWED.runs for _ in range(run.layers)]


def test_vocabulary_is_padded():
    assert padded_vocab(128256, 1) == 128256
    assert padded_vocab(50257, 1) == 50304
    assert padded_vocab(50257, 4) % 4 == 0


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"tp": 3, "gpus": 3}, "tp may be 1, 2, 4, 8"),
        ({"tp": 2, "gpus": 8}, "make the product equal --gpus"),
        ({"pp": 64, "gpus": 64, "tp": 1}, "more than the 32 layers"),
        ({"ep": 8, "tp": 8, "gpus": 8}, "has no experts"),
        ({"utilization": 1.5}, "not a share"),
        ({"output_tokens": 10}, "say how long the prompt is"),
        ({"input_tokens": 8000, "output_tokens": 1000}, "is more than --ctx"),
        ({"engine": "vlm"}, "nearest: vllm"),
        ({"weights": "fp9"}, "nearest: fp8"),
        ({"kv": "q9_0"}, "nearest"),
    ],
)
def test_impossible_requests_say_what_would_work(request_, words):
    if request_.get("output_tokens") == 10:
        request_ = {**request_, "context_tokens": None}
    with pytest.raises(InfoptError, match=words):
        memory_ledger(make.scenario(**request_))


@pytest.mark.parametrize("model", MODELS)
def test_traffic_of_arrays_equals_scalars(model):
    stage = traffic(make.scenario(model))[0]
    batches, contexts = np.array([1, 2, 64, 1000]), np.array([16, 1024, 5000, 90_000])
    np.testing.assert_allclose(stage.weight_bytes(batches), [stage.weight_bytes(int(b)) for b in batches], rtol=1e-12)
    pairs = zip(batches, contexts, strict=True)
    expected = [stage.kv_bytes(int(b), float(c)) for b, c in pairs]
    np.testing.assert_allclose(stage.kv_bytes(batches, contexts * 1.0), expected, rtol=1e-12)
