"""`probe latency` and `probe verify`: which passes are timed, what their records say, and layers that are left out."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenarios import attention, device, model, scenario

from infopt.errors import InfoptError
from infopt.ledgers.compute import decode_flop_per_token
from infopt.ledgers.traffic import traffic
from infopt.probes import passes as passes_module
from infopt.probes.decoder import Decoder
from infopt.probes.latency import decode_passes, latency, models_to_measure
from infopt.probes.passes import Pass, affordable, measured_passes, pass_flop, step_of, whole
from infopt.probes.runtime import open_runtime
from infopt.probes.sampling import Operation, Timing
from infopt.probes.setting import Setting
from infopt.probes.verify import verify
from infopt.profiles.catalogue import load_catalogue_model
from infopt.profiles.geometry import FeedForward, LayerRun
from infopt.profiles.step_constants import kernels_per_step

pytestmark = pytest.mark.xdist_group("torch")
LAYERS = 8
NARROW = FeedForward(kind="dense", mlp_params=3 * 64 * 128, intermediate=128)
SPREAD = passes_module.Spread(0.01, 0.009, 0.012, 9, 8, False)


def tiny(layers=LAYERS, **changes):
    mixer = attention(kv_heads=2, head_dim=16, q_heads=4)
    sizes = {"hidden": 64, "vocab": 512, "embed_params": 512 * 64, "head_params": 0}
    return model(runs=[LayerRun(layers, mixer, NARROW, norm_params=128)], **sizes | changes)


@pytest.fixture(scope="module")
def setting():
    return Setting(open_runtime("cpu", 1), quick=True)


def all_steps(part):
    return [step for found in part for step in found.steps]


def all_notes(part):
    return [note for found in part for note in found.notes]


def test_steps_by_batch_and_context_and_a_prompt(setting):
    steps = all_steps(latency(setting, tiny(), "fp32"))
    assert {(s.batch, s.tokens, s.context_tokens) for s in steps} == {
        (1, 1, 128), (4, 1, 128), (1, 1, 1024), (1, 128, 0),
    }  # fmt: skip
    for s in steps:
        assert 0 < s.p10_s <= s.median_s <= s.p90_s
        assert s.n >= 6
        assert (s.engine, s.eager, s.weights, s.kv, s.tp) == ("torch", True, "fp32", "fp32", 1)
        assert (s.layers, s.layers_run, s.hidden, s.kernels) == (LAYERS, LAYERS, 64, kernels_per_step(tiny()))
        assert s.weight_bytes == 4 * tiny().params_active
        assert s.kv_bytes == s.batch * s.context_tokens * LAYERS * 2 * 2 * 16 * 4


def test_verification_of_several_tokens(setting):
    steps = all_steps(verify(setting, tiny(), "bf16", batches=(1, 3)))
    assert {(s.batch, s.tokens) for s in steps} == {(b, n) for b in (1, 3) for n in (1, 2, 4, 8)}
    assert {s.context_tokens for s in steps} == {256}


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("meta-llama/Llama-3.1-8B", "bf16"),
        ("HuggingFaceTB/SmolLM2-135M", "fp32"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "bf16"),
    ],
)
def test_bytes_and_flop_are_the_ledgers(setting, name, weights):
    profile = load_catalogue_model(name)
    s = scenario(profile, device(), weights=weights, kv=weights)
    (stage,) = traffic(s)
    found = step_of(setting, profile, weights, "eager", Pass(4, 1, 1000), SPREAD, profile.layers)
    assert found.weight_bytes == pytest.approx(stage.weight_bytes(1), rel=1e-6)
    assert found.kv_bytes == pytest.approx(stage.kv_bytes(4, 1000))
    assert found.flop == pytest.approx(4 * decode_flop_per_token(profile, 1000))
    assert (found.weights, found.kv) == (s.weight_format, s.kv_format)


def test_a_prompt_meets_the_head_once(setting):
    profile = tiny()
    head = profile.embed_params
    alone, longer = (pass_flop(profile, Pass(1, n, 0)) for n in (100, 101))
    attention_flop = LAYERS * 4 * 4 * 16 * 100
    assert longer - alone == pytest.approx(2 * (profile.params_active - head) + attention_flop)
    verified = pass_flop(profile, Pass(1, 5, 50)) - pass_flop(profile, Pass(1, 4, 50))
    assert verified == pytest.approx(2 * profile.params_active + LAYERS * 4 * 4 * 16 * 54)


def timing(median_s, low_s=None, high_s=None, contended=False):
    operation = Operation("pass", lambda _: None, 1, "tokens")
    return Timing(operation, median_s, low_s or median_s, high_s or median_s, 9, 9, 0.01, contended)


@given(layer_s=st.floats(1e-6, 1.0), fixed_s=st.floats(0, 10.0), few=st.integers(1, 20), layers=st.integers(1, 200))
def test_two_numbers_of_layers_tell_layer_and_rest_apart(layer_s, fixed_s, few, layers):
    found = whole([timing(fixed_s + few * layer_s), timing(fixed_s + 2 * few * layer_s)], (few, 2 * few), layers)
    if found is not None:  # None where the layers are lost in the rounding of the rest
        assert found.median_s == pytest.approx(fixed_s + layers * layer_s, rel=1e-5)
    else:
        assert fixed_s > 1e6 * few * layer_s


def test_an_extrapolated_step_is_less_certain_than_what_it_rests_on():
    few, many = timing(2.0, 1.9, 2.2), timing(3.0, 2.9, 3.2, contended=True)
    found = whole([few, many], (2, 4), 10)
    assert found.median_s == pytest.approx(6.0)
    assert found.p90_s - found.median_s > 4 * 0.2
    assert found.median_s - found.p10_s > 4 * 0.1
    assert found.contended
    assert whole([many, few], (2, 4), 10) is None


def counted_layers(monkeypatch):
    """Time as the number of layers that were run, and one for the rest: a clock nobody disturbs."""
    ran = count()
    honest = Decoder._feed_forward

    def counting(self, x, layer):
        next(ran)
        return honest(self, x, layer)

    def measured(runtime, operations, sampling, tell):
        times = []
        for operation in operations:
            before = next(ran)
            operation.run(0)
            times.append(timing(1.0 + 0.1 * (next(ran) - before - 1)))
        return times

    monkeypatch.setattr(Decoder, "_feed_forward", counting)
    monkeypatch.setattr(passes_module, "measure", measured)


@pytest.mark.parametrize("room_layers", [2, 5, 7])
def test_a_model_without_room_is_extrapolated_from_the_layers_that_have(setting, monkeypatch, room_layers):
    counted_layers(monkeypatch)
    profile, point = tiny(), Pass(2, 1, 64)
    cached = 2 * 65 * 2 * 2 * 16
    layer = 64 * (64 + 64 * 2) + 3 * 64 * 128  # query, key, value and output; gate, up and down
    room = (512 * 64 + room_layers * (layer + cached)) * 4
    monkeypatch.setattr(Setting, "room_bytes", lambda self: room)
    (found,) = measured_passes(setting, profile, "fp32", None, [point], ["eager"])
    (step,) = found.steps
    assert step.layers_run == room_layers // 2 * 2
    assert step.median_s == pytest.approx(1.0 + 0.1 * LAYERS)
    assert "extrapolated from" in found.notes[-1]
    monkeypatch.setattr(Setting, "room_bytes", lambda self: (512 * 64 + layer) * 4)
    with pytest.raises(InfoptError, match="two layers of test/model"):
        list(measured_passes(setting, profile, "fp32", None, [point], ["eager"]))


def test_layers_that_do_not_fit_after_all_are_left_out(setting, monkeypatch):
    counted_layers(monkeypatch)
    honest = passes_module.random_weights

    def too_large(runtime, shape, dtype, layers):
        if layers > 4:
            raise MemoryError
        return honest(runtime, shape, dtype, layers)

    monkeypatch.setattr(passes_module, "random_weights", too_large)
    (found,) = measured_passes(setting, tiny(7), "fp32", None, [Pass(1, 1, 16)], ["eager"])
    assert found.steps[0].layers_run == 2  # half of 7, an even number
    assert found.steps[0].median_s == pytest.approx(1.7)
    assert any("size 3 instead of 7" in note for note in found.notes)


def test_a_graph_is_captured_once_and_replayed(setting, monkeypatch):
    captured, replayed = [], []

    def fake(runtime, run):
        captured.append(run)
        return lambda: replayed.append(run())

    monkeypatch.setattr(passes_module, "capture", fake)
    (found,) = measured_passes(setting, tiny(2), "fp32", None, [Pass(1, 1, 16), Pass(2, 1, 16)], ["graph"])
    assert len(captured) == 2
    assert len(replayed) >= 2 * found.steps[0].n
    assert {step.eager for step in found.steps} == {False}


def test_passes_that_take_too_long_are_left_out_and_named(setting, monkeypatch):
    monkeypatch.setattr(passes_module, "forward", lambda runtime, decoder, p, layers=None: p)
    monkeypatch.setattr(passes_module, "once_s", lambda runtime, p: 0.02 * p.batch * p.tokens)
    asked = [Pass(batch, 1, 128) for batch in (1, 64, 100, 200)] + [Pass(1, 128, 0)]
    kept, round_s, notes = affordable(setting, None, asked)
    assert kept == [Pass(1, 1, 128), Pass(64, 1, 128), Pass(100, 1, 128), Pass(1, 32, 0)]
    assert round_s == pytest.approx(0.02 * (1 + 64 + 100 + 32))
    assert notes == (
        "batch 200, 1 token, context 128: left out, it takes too long here",
        "prompts of 32 instead of 128 tokens: longer ones take too long here",
    )


def test_which_passes_are_timed(setting):
    thorough = Setting(setting.runtime)
    default = decode_passes(thorough, tiny())
    assert {p.batch for p in default} == {1, 2, 4, 8, 16}
    assert {p.context_tokens for p in default if p.batch == 1} == {256, 1024, 4096}
    assert {p.context_tokens for p in default if p.batch > 1} == {256}
    assert max(p.context_tokens for p in decode_passes(thorough, tiny(max_position_tokens=2048))) == 1024
    assert decode_passes(thorough, tiny(max_position_tokens=100))[0].context_tokens == 99
    assert set(decode_passes(thorough, tiny(), (2, 3), (500, 40))) == {Pass(2, 1, 500), Pass(3, 1, 500), Pass(2, 1, 40)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": "fp8"}, "--weights fp8: step times are measured in fp32, bf16, fp16"),
        ({"kv": "fp8"}, "--kv fp8"),
        ({"modes": ["graph"]}, "--mode graph: eager is possible"),
        ({"contexts_tokens": [131072]}, "leaves test/model no position for a token, it has 131072"),
        ({"batches": [0]}, "at least 1"),
    ],
)
def test_what_cannot_be_measured_is_refused(setting, changes, words):
    asked = {"weights": "bf16"} | changes
    with pytest.raises(InfoptError) as raised:
        list(latency(setting, tiny(), **asked))
    assert words in str(raised.value)


def test_verify_needs_positions_for_its_tokens(setting):
    with pytest.raises(InfoptError, match="has 256 positions"):
        list(verify(setting, tiny(max_position_tokens=256), "fp32"))


def test_a_second_size_comes_with_every_model(setting):
    small, large = models_to_measure(setting)
    assert small.hidden != large.hidden
    for profile in (small, large, load_catalogue_model("meta-llama/Llama-3.1-8B")):
        both = models_to_measure(setting, profile)
        assert len(both) == 2
        assert profile in both
        assert both[0].params_active < both[1].params_active
        assert both[0].hidden != both[1].hidden
    assert models_to_measure(setting, small, single=True) == [small]
