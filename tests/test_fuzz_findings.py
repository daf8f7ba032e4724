"""What the fuzzer found, and what is said instead of a crash; the inputs themselves are tests/corpus/*/found-*."""

from pathlib import Path

import pytest

from infopt.arrivals.traces import open_trace
from infopt.errors import InfoptError, UndeterminedError, one_line
from infopt.gate.check import gate
from infopt.gate.policy import Policy
from infopt.gate.readers.pods import quantity_bytes
from infopt.hardware.names import resolve_hardware
from infopt.probes.drafting.folder import folder_shape
from infopt.probes.drafting.text import folder_text
from infopt.profiles.engine_ints import sized_int
from infopt.profiles.engines import version_key
from infopt.profiles.flag_data import release_key
from infopt.profiles.resolve import profile_from_path
from infopt.studies.checklist_answers import read_answers
from infopt.studies.validate import validate
from infopt.units import whole_of

LONG = "9" * 5000
LLAMA = (
    '"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, '
    '"num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 4096'
)
TRUTH = "id,source,model,gpu,n_gpus,tp,pp,ep,weight_format,kv_dtype,engine,isl,osl,batch_or_concurrency,metric"
TRUTH += ",value,unit,note"


def file(folder: Path, name: str, content: str | bytes) -> Path:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


@pytest.mark.parametrize("said", ["a\nb", "a\r\n\r\nb", "a\u2028b", "a\x85b", "a\x0bb"])
def test_an_error_is_one_line_whatever_somebody_gave(said: str) -> None:
    for kind in (InfoptError, UndeterminedError):
        assert str(kind(said)) == one_line(said) == "a b"


def test_digits_that_int_refuses_are_no_number() -> None:
    assert [whole_of(text) for text in ("8", " 8 ", "\u00b2", "-8", "8.0", "", LONG)] == [8, 8, *[None] * 5]


def test_a_version_of_thousands_of_digits_is_no_version() -> None:
    for text in (LONG, f"0.{LONG}", f"v0.10.{LONG}", "\u00b2.1"):
        with pytest.raises(InfoptError, match="is not a version"):
            version_key(text)
        assert release_key(text) is None
    assert version_key("0.19.1") == version_key("v0.19.1rc2") == (0, 19, 1)
    assert version_key("b4701") == (4701,)


def test_a_suffix_behind_digits_that_are_none_is_refused() -> None:
    for text in ("\u00b2k", f"{LONG}k"):
        with pytest.raises(InfoptError):
            sized_int("vllm", text)


@pytest.mark.parametrize("text", ["custom:3", "custom x3", "custom"])
def test_hardware_that_is_a_count_alone_is_refused(text: str) -> None:
    with pytest.raises(InfoptError):
        resolve_hardware(text)


def test_a_count_that_no_engine_takes_is_a_finding(tmp_path: Path) -> None:
    path = file(tmp_path, "serve.sh", f"vllm serve Qwen/Qwen3-8B --max-model-len {'9' * 400}\n")
    found = gate([str(path)], Policy(hardware="h100"))
    assert found.errors == ()
    assert any("is not a value of --max-model-len" in finding.message for finding in found.findings)


def test_a_memory_that_no_host_has_is_not_known() -> None:
    assert quantity_bytes("9" * 400) is None
    assert quantity_bytes("1.5Gi") == 3 * 2**29


def test_a_model_type_longer_than_a_name_can_be_is_unknown(tmp_path: Path) -> None:
    path = file(tmp_path, "config.json", "{" + LLAMA.replace('"llama"', f'"{"a" * 400}"') + "}")
    with pytest.raises(InfoptError, match="unknown model_type"):
        profile_from_path(str(path))


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ('"rms_norm_eps": {"a": 1}', "rms_norm_eps is .*not a number"),
        ('"sliding_window": "wide"', "sliding_window is 'wide', not a number"),
        ('"rope_theta": "x"', "rope_theta is 'x', not a number"),
        ('"rope_theta": 1e308', "rope_theta is '1e.308', not a number above 0 and at most"),
    ],
)
def test_settings_of_a_draft_that_are_no_numbers_are_refused(tmp_path: Path, key: str, said: str) -> None:
    file(tmp_path, "config.json", "{" + LLAMA + ", " + key + "}")
    with pytest.raises(InfoptError, match=said):
        folder_shape(str(tmp_path), 4096)


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    model = '{"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"}'
    file(tmp_path, "tokenizer.json", '{"version": "1.0", "model": ' + model + "}")
    file(tmp_path, "tokenizer_config.json", '{"chat_template": [2, {"name": "default", "template": 3}]}')
    assert folder_text(str(tmp_path)).template is None
    file(tmp_path, "chat_template.jinja", b"\xff")
    with pytest.raises(InfoptError, match="cannot be read"):
        folder_text(str(tmp_path))


def test_answers_are_read_by_one_reader_of_yaml(tmp_path: Path) -> None:
    """libyaml takes what PyYAML's own reader does not."""
    with pytest.raises(InfoptError):
        read_answers(file(tmp_path, "answers.yaml", "k: {e?}\ns:\n"))


def test_a_row_of_an_engine_that_serves_nothing_is_skipped(tmp_path: Path) -> None:
    row = "x,y,Qwen3-30B-A3B,H100,1,1,1,,FP4,,1m,500,2000,max,output_tok_s,10,,"
    found = validate(file(tmp_path, "truth.csv", f"{TRUTH}\n{row}\n"))
    assert [check.reason for check in found.checks] == ["engine '1m' is not one that serves"]


@pytest.mark.parametrize("value", ["inf", "nan", "0", "-1"])
def test_a_speed_that_nobody_measured_is_refused(tmp_path: Path, value: str) -> None:
    row = f"x,y,Qwen3-30B-A3B,H100,1,1,1,,FP4,,vLLM,500,2000,max,output_tok_s,{value},,"
    with pytest.raises(InfoptError, match=r"truth\.csv:2: value .* is not a number above 0"):
        validate(file(tmp_path, "truth.csv", f"{TRUTH}\n{row}\n"))


def test_an_id_of_thousands_of_digits_is_told_by_line(tmp_path: Path) -> None:
    path = file(tmp_path, "t.csv", f"time_s,input_tokens,output_tokens,prefix\n0,100,20,{LONG}\n")
    with pytest.raises(InfoptError, match=r"t\.csv: line 2: prefix .* is not a block id"):
        list(open_trace(str(path)).stream())
