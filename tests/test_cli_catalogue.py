"""`models`, `hardware`, `schema`, `reproduce`, `validate` on the command line."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from infopt.cli import run
from infopt.errors import InfoptError
from infopt.hardware.names import resolve_hardware
from infopt.profiles.catalogue import ModelEntry, catalogue_config, catalogue_names, load_catalogue_model
from infopt.profiles.hf_config import profile_from_config
from infopt.reports.table_models import model_page
from infopt.reports.table_plan import plan_page
from infopt.studies.derivations import active_params_by_part
from infopt.studies.model_import import config_of, decisive
from infopt.studies.model_view import model_view
from infopt.studies.planning import plan
from infopt.studies.scenarios import Request

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 128000,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.0",
    "vocab_size": 128256,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "my-model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    out = capsys.readouterr()
    assert out.err == ""
    return out.out


def test_models_list_names_all_and_only_what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(printed(capsys, "models", "list").splitlines()) == len(catalogue_names())
    found = printed(capsys, "models", "list", "llama 70b").splitlines()
    assert found
    assert all("llama" in line.lower() and "70b" in line.lower() for line in found)


def test_models_list_knows_short_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert "meta-llama/Llama-3.1-70B" in printed(capsys, "models", "list", "70b")
    assert "(70b)" in printed(capsys, "models", "list", "llama-3.1-70b")


def test_models_list_reads_no_record(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a record was read")

    monkeypatch.setattr("infopt.profiles.catalogue.load_record", refuse)
    assert printed(capsys, "models", "list")


def test_long_list_has_sizes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    head, *lines = printed(capsys, "models", "list", "llama-3.1-8b", "--long").splitlines()
    (line,) = [line for line in lines if line.endswith(" meta-llama/Llama-3.1-8B")]
    assert head.split() == ["total", "active", "format", "KV", "B/token", "limit", "model"]
    assert line.split() == ["8.03B", "7.50B", "bf16", "131,072", "128k", "meta-llama/Llama-3.1-8B"]


def test_model_page_writes_the_derivation_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(printed(capsys, "models", "show", "70b", "--ctx", "32k").split())
    assert "2 x 80 layers x 8 heads x 128 x 2 B = 327,680 B/token" in text
    assert "10.74 GB (10.00 GiB) a sequence, logically" in text
    assert "70,553,706,496" in text
    assert "69,503,033,344" in text


def test_two_right_answers_for_a_hybrid(capsys: pytest.CaptureFixture[str]) -> None:
    """Logical bytes and what the engine reserves differ, and both are printed."""
    cache = json.loads(printed(capsys, "models", "show", "gemma-3-27b", "--ctx", "128k", "--json"))["cache"]
    assert cache["reserved"]["bytes_per_sequence"] > 1.3 * cache["kv_bytes_per_sequence"]
    text = printed(capsys, "models", "show", "gemma-3-27b", "--ctx", "128k")
    assert "11.17 GB (10.41 GiB) a sequence, logically" in " ".join(text.split())
    assert "engine reserves" in text


def test_every_model_can_be_shown_and_its_cache_adds_up() -> None:
    """The written-out parts sum to the ledger's cache; the weights read in a step are those of the parts it names."""
    h200 = resolve_hardware("h200")
    pages = set()
    for id in catalogue_names():
        view = model_view(load_catalogue_model(id), 32768)
        kept = sum(part.bytes_per_token * min(part.window_tokens or 32768, 32768) for part in view.parts)
        assert kept == pytest.approx(view.kv_bytes_per_sequence), id
        assert sum(part.state_bytes for part in view.parts) == pytest.approx(view.cache.state_bytes), id
        if view.model.architecture in pages:
            continue
        pages.add(view.model.architecture)
        assert model_page(view)
        found = plan(view.model, h200, Request(context_tokens=4096))
        assert plan_page(found, explain=True)
        bits = found.scenario.weight_bits
        read = sum(count * bits[part] / 8 for part, count in active_params_by_part(view.model).items())
        assert found.bandwidth.weight_bytes_per_step == pytest.approx(read, rel=0.01), id


@pytest.mark.parametrize("form", ["csv", "md", "json"])
def test_every_form_of_every_list(capsys: pytest.CaptureFixture[str], form: str) -> None:
    for arguments in (
        ("models", "list", "qwen3"),
        ("models", "show", "8b"),
        ("hardware", "list"),
        ("hardware", "show", "l4"),
    ):
        assert printed(capsys, *arguments, "--format", form)


def test_import_keeps_what_decides(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    record = yaml.safe_load(printed(capsys, "models", "import", str(folder), "--id", "me/mine"))
    entry = ModelEntry.model_validate(record)
    assert entry.id == "me/mine"
    assert entry.source.endswith("config.json")
    assert not {"rms_norm_eps", "transformers_version", "bos_token_id"} & set(entry.config)
    kept = profile_from_config(entry.config, id="", source="", source_kind="")
    assert kept == profile_from_config(CONFIG, id="", source="", source_kind="")
    # Nothing more can go.
    assert decisive(entry.config) == entry.config


@pytest.mark.parametrize("id", ["google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b"])
def test_decisive_fields_count_the_same(id: str) -> None:
    config = {**catalogue_config(id), "use_cache": True}
    kept = decisive(config)
    assert "use_cache" not in kept
    first, second = (profile_from_config(c, id="", source="", source_kind="") for c in (config, kept))
    assert first == second
    assert first.params_total == load_catalogue_model(id).params_total


@pytest.mark.parametrize(
    "id",
    [
        "meta-llama/Llama-3.1-8B",
        "Qwen/Qwen2.5-7B-Instruct",
        "Qwen/Qwen3-4B",
        "mistralai/Mistral-7B-v0.1",
        "mistralai/Mixtral-8x7B-v0.1",
        "Qwen/Qwen3-30B-A3B",
    ],
)
def test_a_config_can_be_written_from_counted_layers(id: str) -> None:
    """What a GGUF file gives is a profile; the config written from it counts to the same."""
    model = load_catalogue_model(id)
    counted = profile_from_config(config_of(model), id="", source="", source_kind="")
    assert (counted.runs, counted.params_total) == (model.runs, model.params_total)


def test_no_config_is_made_up_for_other_families() -> None:
    with pytest.raises(InfoptError, match="import its config"):
        config_of(load_catalogue_model("deepseek-ai/DeepSeek-V3"))


def test_import_writes_whole_files(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "record.yaml"
    assert printed(capsys, "models", "import", str(folder / "config.json"), "--out", str(out)) == ""
    assert yaml.safe_load(out.read_text())["id"] == "my-model"
    assert set(os.listdir(tmp_path)) == {"my-model", "record.yaml"}
    assert out.stat().st_mode & 0o077 == 0o644 & 0o077


def test_import_refuses_in_one_line(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    (folder / "broken.json").write_text("{")
    (tmp_path / "empty").mkdir()
    for path, out in (
        (folder / "broken.json", tmp_path / "x.yaml"),
        (tmp_path / "empty", tmp_path / "x.yaml"),
        (tmp_path / "nothing.json", tmp_path / "x.yaml"),
        (folder, tmp_path / "no" / "x.yaml"),
        (folder, tmp_path),
    ):
        assert run(["models", "import", str(path), "--out", str(out)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert set(os.listdir(tmp_path)) == {"my-model", "empty"}


def test_hardware_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert "79.19 GiB" in printed(capsys, "hardware", "list", "h100-sxm")
    text = printed(capsys, "hardware", "show", "h100")
    for figure in ("3.35 TB/s", "989 TFLOP/s", "79.65 GiB", "measured", "vendor", "[1]", "SOURCES"):
        assert figure in text
    assert json.loads(printed(capsys, "hardware", "show", "8x h100", "--json"))["gpus"] == 8


def test_reproduce_and_validate_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert json.loads(printed(capsys, "reproduce", "--document", "3", "--json"))["items"]
    assert run(["reproduce", "--document", "4"]) == 2
    capsys.readouterr()
    rows = tmp_path / "rows.csv"
    result: dict[str, Any] = json.loads(printed(capsys, "validate", "--predictions", str(rows), "--json"))
    assert result["scored"] > 0
    with rows.open() as file:
        assert len(list(csv.DictReader(file))) == result["rows"]
    assert {row["group"] for row in csv.DictReader(io.StringIO(printed(capsys, "validate", "--format", "csv")))}


def test_validation_follows_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    schema = json.loads(printed(capsys, "schema", "validate"))
    jsonschema.validate(json.loads(printed(capsys, "validate", "--json")), schema)
