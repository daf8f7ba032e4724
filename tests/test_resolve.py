"""What a name means: paths first, then the catalogue, then what this machine has, then - only when asked - the hub."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infopt.errors import InfoptError
from infopt.profiles import hub, resolve
from infopt.profiles.geometry import ModelProfile
from infopt.profiles.local_cache import cached_snapshot, choose_gguf, hub_cache, ollama_store
from infopt.profiles.model_names import HubName, OllamaName, parse_model_name
from infopt.profiles.resolve import resolve_model

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
    "max_position_embeddings": 4096, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No cache, no token, no Ollama: whatever the machine running the tests has."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS", "HF_TOKEN",
                 "HF_ENDPOINT", "HF_HUB_OFFLINE"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return home


def write_config(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA | changes))
    return folder


def message(text: str, *, online: bool = False) -> str:
    with pytest.raises(InfoptError) as caught:
        resolve_model(text, online=online)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- paths ---------------------------------------------------------------------------------------------


def test_an_existing_path_wins_over_a_name() -> None:
    write_config(Path("70b"))
    assert resolve_model("70b").layers == 2
    os.rename("70b", "elsewhere")
    assert resolve_model("70b").id == "meta-llama/Llama-3.1-70B"


def test_every_form_of_path(empty_home: Path) -> None:
    write_config(empty_home / "my-model")
    (empty_home / "my-model" / "other.json").write_text(json.dumps(LLAMA))
    for text in ("~/my-model", "~/my-model/", "~/my-model/config.json", "../home/my-model"):
        assert resolve_model(text).id == "my-model", text
    assert resolve_model("~/my-model/other.json").id == "other"


@pytest.mark.parametrize("text", ["./llama", "../llama", "/nowhere/llama", "~/llama", "llama.gguf", "config.json",
                                  "model.safetensors", "x/y/z"])  # fmt: skip
def test_what_looks_like_a_path_must_exist(text: str) -> None:
    assert message(text) == f"{text}: no such file or folder"


def test_folders_and_files_that_are_no_model(tmp_path: Path) -> None:
    assert "neither a config.json nor a GGUF" in message(str(tmp_path))
    (tmp_path / "notes.txt").write_text("hello")
    assert "not a model file infopt reads" in message(str(tmp_path / "notes.txt"))
    (tmp_path / "config.json").write_text("[]")
    assert "expected an object" in message(str(tmp_path / "config.json"))


def test_things_that_are_no_files_do_not_block(tmp_path: Path) -> None:
    for ending in ("", ".gguf", ".json", ".safetensors"):
        pipe = tmp_path / f"pipe{ending}"
        os.mkfifo(pipe)
        (tmp_path / "config.json").write_text(json.dumps(LLAMA))
        assert "named pipe" in message(str(pipe))
    assert "device" in message("/dev/zero")
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    assert "too many symbolic links" in message(str(loop))
    dangling = tmp_path / "dangling.json"
    dangling.symlink_to(tmp_path / "gone")
    assert "no such file" in message(str(dangling))
    (tmp_path / "folder.gguf").mkdir()
    assert "neither a config.json" in message(str(tmp_path / "folder.gguf"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    write_config(tmp_path)
    (tmp_path / "config.json").chmod(0)
    assert "permission denied" in message(str(tmp_path))


@pytest.mark.parametrize("text", ["", "   ", "a\0b", "a\nb", "x" * 5000, "\x1b[31m", "\udcff"])
def test_what_is_no_name(text: str) -> None:
    assert message(text).startswith("model name")


# --- catalogue ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("70b", "meta-llama/Llama-3.1-70B"),
        ("  8b ", "meta-llama/Llama-3.1-8B"),
        ("meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-70B"),
        ("meta-llama/Llama-3.1-70B@main", "meta-llama/Llama-3.1-70B"),
        ("hf:meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-70B"),
        ("https://huggingface.co/meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-70B"),
        ("https://huggingface.co/meta-llama/Llama-3.1-70B/tree/main", "meta-llama/Llama-3.1-70B"),
        ("https://hf.co/meta-llama/Llama-3.1-70B/blob/main/config.json?download=true", "meta-llama/Llama-3.1-70B"),
    ],
)
def test_catalogue_names(text: str, model: str) -> None:
    assert resolve_model(text).id == model


def test_unknown_names_list_the_nearest() -> None:
    assert "nearest: meta-llama/Llama-3.1-70B" in message("meta-lama/Llama-3.1-70B")
    assert "add --online to ask the hub" in message("nobody/nothing-at-all")
    assert "give the full id" in message("llama-3.1")


@pytest.mark.parametrize("text", ["meta-llama/Llama-3.1-70B@v1.0",
                                  "https://huggingface.co/meta-llama/Llama-3.1-70B/tree/0123456789abcdef"])  # fmt: skip
def test_the_catalogue_does_not_answer_for_a_revision(text: str) -> None:
    assert "only for unpinned names" in message(text)


def test_a_catalogue_name_loads_no_reader() -> None:
    """Start-up: nothing of hub, GGUF or safetensors, and no network module."""
    code = (
        "import sys; from infopt.profiles.resolve import resolve_model; resolve_model('70b');"
        "print([m for m in sys.modules if m.startswith('infopt.profiles') or m in ('urllib.request', 'http.client')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for module in ("hub", "gguf", "safetensors", "local_cache", "urllib.request", "http.client"):
        assert module not in loaded, loaded


# --- names taken apart ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", HubName("org/name")),
        ("org/name@v2", HubName("org/name", "v2")),
        ("hf:org/name:Q4_K_M", HubName("org/name", None, None, "Q4_K_M")),
        ("org/name-GGUF:IQ4_XS", HubName("org/name-GGUF", None, None, "IQ4_XS")),
        ("hf.co/org/name:Q8_0", HubName("org/name", None, None, "Q8_0")),
        ("huggingface.co/org/name", HubName("org/name")),
        ("https://huggingface.co/org/name/tree/refs%2Fpr%2F1", HubName("org/name", "refs/pr/1")),
        ("https://huggingface.co/org/name/blob/main/sub/a.gguf", HubName("org/name", "main", "sub/a.gguf")),
        ("llama3.1:70b", OllamaName("llama3.1", "70b")),
        ("ollama:llama3.1:70b-instruct-q4_K_M", OllamaName("llama3.1", "70b-instruct-q4_K_M")),
        ("ollama:me/mine", OllamaName("me/mine", None)),
        ("me/mine:latest", OllamaName("me/mine", "latest")),
        ("70b", None),
    ],
)
def test_names_taken_apart(text: str, expected: HubName | OllamaName | None) -> None:
    assert parse_model_name(text) == expected


@pytest.mark.parametrize(
    "text",
    ["https://example.com/org/name", "ftp://huggingface.co/org/name", "https://huggingface.co/datasets/org/name",
     "https://huggingface.co/org", "https://huggingface.co/org/name/discussions/1", "hf:org", "hf:../..", "org/name@",
     "https://huggingface.co/org/name/blob/main/../../x", "https://huggingface.co/../../etc/x", "hf:org/name@a b",
     "ollama:", "ollama:../../x:y", "llama3.1:../../x", "file:///etc/passwd", "https://[::1"],
)  # fmt: skip
def test_names_that_mean_nothing(text: str) -> None:
    if text == "org/name@":
        assert "add --online" in message(text)  # an empty revision is none
    else:
        message(text)


def test_the_endpoint_of_a_mirror_is_a_hub_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    assert parse_model_name("https://mirror.example/org/name") == HubName("org/name")


# --- local caches ------------------------------------------------------------------------------------------

COMMIT = "a" * 40
OTHER = "b" * 40


def cache(root: Path, repo: str, commit: str = COMMIT, **changes: Any) -> Path:
    place = root / ("models--" + repo.replace("/", "--"))
    return write_config(place / "snapshots" / commit, **changes)


def test_where_the_hub_cache_is(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub_cache() == str(empty_home / ".cache" / "huggingface" / "hub")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert hub_cache() == "/xdg/huggingface/hub"
    monkeypatch.setenv("HF_HOME", "/hf")
    assert hub_cache() == "/hf/hub"
    monkeypatch.setenv("HF_HUB_CACHE", "~/own")
    assert hub_cache() == str(empty_home / "own")
    assert ollama_store() == str(empty_home / ".ollama" / "models")


def test_a_downloaded_model_is_found_by_name_branch_and_commit(empty_home: Path) -> None:
    root = empty_home / ".cache" / "huggingface" / "hub"
    folder = cache(root, "org/name")
    cache(root, "org/name", OTHER, num_hidden_layers=3)
    refs = folder.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT)
    (refs / "v2").write_text(OTHER + "\n")
    assert (resolve_model("org/name").layers, resolve_model("org/name").id) == (2, "org/name")
    assert resolve_model("org/name@v2").layers == 3
    assert resolve_model(f"org/name@{OTHER}").layers == 3
    assert resolve_model("org/name@bbbbbbb").layers == 3
    assert "revision v3 is not in the local hub cache" in message("org/name@v3")


def test_one_snapshot_without_a_reference_is_main(empty_home: Path) -> None:
    cache(empty_home / ".cache" / "huggingface" / "hub", "org/name")
    assert resolve_model("org/name").layers == 2


def test_a_cache_without_all_weights_is_counted_from_its_config(empty_home: Path) -> None:
    folder = cache(empty_home / ".cache" / "huggingface" / "hub", "org/name")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "x.safetensors"}}))
    got = resolve_model("org/name")
    assert (got.id, got.stored_bytes) == ("org/name", {})
    assert got.notes[-1] == "1 weight files are not downloaded: bytes are counted from config.json"
    assert "1 of 1 shards are not beside it: x.safetensors" in message(str(folder))


def test_a_folder_of_several_ggufs(tmp_path: Path) -> None:
    for name in ("a-Q8_0.gguf", "b-Q2_K.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    assert "a-Q8_0.gguf, b-Q2_K.gguf; give the file's path" in message(str(tmp_path))
    (tmp_path / "b-Q2_K.gguf").unlink()
    assert "a-Q8_0.gguf: ends inside the version" in message(str(tmp_path))


def test_a_reference_cannot_leave_the_cache(empty_home: Path) -> None:
    root = empty_home / ".cache" / "huggingface" / "hub"
    folder = cache(root, "org/name")
    cache(root, "org/name", OTHER)
    (folder.parent.parent / "refs").mkdir()
    (folder.parent.parent / "refs" / "main").write_text("../../../../secret")
    assert cached_snapshot("org/name", "main") is None
    assert cached_snapshot("org/name", "../../x") is None


def test_a_gguf_is_chosen_by_its_quantization() -> None:
    names = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m-f16.gguf", "big/m-BF16-00001-of-00002.gguf",
             "big/m-BF16-00002-of-00002.gguf"]  # fmt: skip
    assert choose_gguf(names, "q8_0", "org/m") == "m-Q8_0.gguf"
    assert choose_gguf(names, None, "org/m") == "m-Q4_K_M.gguf"
    assert choose_gguf(names, "BF16", "org/m") == "big/m-BF16-00001-of-00002.gguf"
    assert choose_gguf(["only.gguf"], None, "org/m") == "only.gguf"
    for quant, there in (("Q2_K", "m-Q4_K_M.gguf"), ("F16", "m-Q8_0.gguf")):
        with pytest.raises(InfoptError, match=f"no GGUF file of {quant}.*{there}"):
            choose_gguf(names, quant, "org/m")
    with pytest.raises(InfoptError, match="several"):
        choose_gguf(["a-Q4_K_M.gguf", "b-Q4_K_M.gguf"], "Q4_K_M", "org/m")


def test_a_downloaded_gguf_is_read(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By quantization, by address, or alone beside a config.json that names no weights."""
    root = empty_home / ".cache" / "huggingface" / "hub"
    folder = cache(root, "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF")
    seen: list[str] = []

    def read(path: str, *, id: str | None = None) -> ModelProfile:
        seen.append(os.path.relpath(path, folder))
        return resolve_model("8b")

    monkeypatch.setattr("infopt.profiles.gguf_model.profile_from_gguf", read)
    name = "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF"
    assert "assumed to be" in resolve_model(f"hf:{name}:Q8_0").notes[-1]  # a snapshot without GGUF files
    (folder / "m-Q8_0.gguf").write_bytes(b"GGUF")
    for text in (f"hf:{name}:Q8_0", f"https://huggingface.co/{name}/blob/main/m-Q8_0.gguf", f"hf:{name}"):
        resolve_model(text)
    assert seen == ["m-Q8_0.gguf"] * 3


# --- GGUF repositories and Ollama names that nobody downloaded -------------------------------------------------


@pytest.mark.parametrize(
    ("text", "model", "kind"),
    [
        ("hf:bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M", "meta-llama/Llama-3.1-8B", "q4_k_m"),
        ("bartowski/google_gemma-3-27b-it-GGUF:Q8_0", "google/gemma-3-27b-it", "q8_0"),
        ("llama3.1:70b", "meta-llama/Llama-3.1-70B", "q4_k_m"),
        ("ollama:llama3.1:70b-instruct-q8_0", "meta-llama/Llama-3.1-70B", "q8_0"),
        ("deepseek-r1:671b", "deepseek-ai/DeepSeek-R1", "q4_k_m"),
        ("gpt-oss:120b", "openai/gpt-oss-120b", "mxfp4"),
        ("phi4:14b", "microsoft/phi-4", "q4_k_m"),
        ("llama-3.1-70b:q4_k_m", "meta-llama/Llama-3.1-70B", "q4_k_m"),
    ],
)
def test_what_was_not_read_is_an_assumption_in_a_note(text: str, model: str, kind: str) -> None:
    got = resolve_model(text)
    assert got.id == model
    assert got.quantization is not None
    assert got.quantization.format == kind
    assert "assumed to be" in got.notes[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ollama:llama3.1", "meta-llama/Llama-3.1-8B"),
        ("deepseek-r1:32b", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"),
        ("deepseek-r1:671b", "deepseek-ai/DeepSeek-R1"),
        ("mixtral:latest", "mistralai/Mixtral-8x7B-v0.1"),
    ],
)
def test_ollama_names_that_say_something_else_than_their_words(text: str, expected: str) -> None:
    got = resolve_model(text)
    assert got.id == expected
    assert got.quantization is not None
    assert got.quantization.format == "q4_k_m"


def test_plain_tags_are_not_quantized() -> None:
    got = resolve_model("llama3.1:8b-instruct-fp16")
    assert (got.quantization, got.compute_dtype) == (None, "fp16")


@pytest.mark.parametrize("text", ["deepseek-r1:9b", "llama3.1:9b", "nosuchfamily:7b", "ollama:nosuchfamily"])
def test_ollama_names_of_no_known_size(text: str) -> None:
    assert "not pulled by Ollama here" in message(text)


def test_a_pulled_ollama_model_is_read(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest leads to the blob, which is a GGUF file; the projector's bytes count as vision."""
    digest = "sha256:" + "0" * 64
    store = empty_home / ".ollama" / "models"
    manifest = store / "manifests" / "registry.ollama.ai" / "library" / "mine" / "7b"
    manifest.parent.mkdir(parents=True)
    layers = [{"mediaType": "application/vnd.ollama.image.projector", "digest": digest, "size": 1000},
              {"mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": 2000}]  # fmt: skip
    manifest.write_text(json.dumps({"layers": layers}))
    assert f"{store}/blobs/sha256-{'0' * 64}" in message("mine:7b")  # the blob is gone

    seen: dict[str, Any] = {}

    def read(path: str, *, id: str) -> ModelProfile:
        seen.update(path=path, id=id)
        return resolve_model("8b")

    monkeypatch.setattr("infopt.profiles.gguf_model.profile_from_gguf", read)
    got = resolve_model("mine:7b")
    assert seen == {"path": f"{store}/blobs/sha256-{'0' * 64}", "id": "mine:7b"}
    assert got.stored_bytes == {"vision": 1000}

    manifest.write_text(json.dumps({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "../x"}]}))
    assert "not a manifest" in message("mine:7b")


# --- the hub, only when asked -----------------------------------------------------------------------------------


def test_the_hub_is_asked_only_online_and_last(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[HubName] = []

    def fetch(name: HubName) -> ModelProfile:
        asked.append(name)
        return resolve.load_catalogue_model("meta-llama/Llama-3.1-8B")

    monkeypatch.setattr(hub, "fetch_model", fetch)
    message("org/name")
    resolve_model("meta-llama/Llama-3.1-70B", online=True)
    assert asked == []
    resolve_model("org/name", online=True)
    resolve_model("meta-llama/Llama-3.1-70B@v1", online=True)
    resolve_model("hf:org/name-GGUF:Q4_K_M", online=True)
    assert asked == [HubName("org/name"), HubName("meta-llama/Llama-3.1-70B", "v1"),
                     HubName("org/name-GGUF", None, None, "Q4_K_M")]  # fmt: skip
