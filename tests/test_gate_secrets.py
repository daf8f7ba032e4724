"""No key, token or password of a file reaches an output, in whatever form and wherever it stands.

The secrets here are made up; those with a well-known shape are put together at run time.
"""

from pathlib import Path

import pytest

from infopt.cli import run
from infopt.gate.check import gate
from infopt.gate.nodes import documents
from infopt.gate.policy import Policy
from infopt.gate.secrets import STRUCK, redacted, secret_name, without_secrets

FORMS = ("table", "json", "sarif", "junit", "github", "gitlab", "md")
# Every one ends so, whatever its shape, that one search finds all that leaked.
MARK = "Zq7"
HUB = "hf_" + "AbCdEfGhIjKlMnOpQrSt" + MARK
KEY = "sk-" + "proj0123456789abcdef" + MARK
AMAZON = "AKIA" + "ABCDEFGHIJKL9999"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0" + MARK + "." + "c2ln" + MARK
WORD, SHORT, LINES = "correct horse battery" + MARK, "x" + MARK, "first-line-" + MARK
POD = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: chat-{HUB}}}
spec:
  nodeSelector: {{cloud.google.com/gke-accelerator: nvidia-l4}}
  containers:
  - name: server
    image: "registry.example/{KEY}/vllm-openai:latest"
    command: [vllm, serve, "https://user:{WORD.replace(" ", "")}@host.example/model"]
    args: [--api-key, "{WORD}", --hf-token={HUB}, --max-model-len, {KEY}, --tensor-parallel-size=two{KEY}, --{HUB}]
    env:
    - {{name: HF_TOKEN, value: {HUB}}}
    - {{name: DB_PASSWORD, value: '{SHORT}'}}
    - name: AWS_ACCESS_KEY_ID
      value: {AMAZON}
    - name: SIGNING_KEY
      value: |
        {LINES}
        second-line-{MARK}
    - {{name: OPAQUE, value: "Bearer {JWT}"}}
    resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""
SCRIPT = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: chat}}
spec:
  nodeSelector: {{cloud.google.com/gke-accelerator: nvidia-l4}}
  containers:
  - name: server
    image: vllm/vllm-openai:v0.10.0
    command: [sh, -c]
    args:
    - |
      export HF_TOKEN={HUB} MY_PASSWORD="{WORD}"
      curl -H "Authorization: Bearer {JWT}" https://me:{WORD.replace(" ", "")}@host.example
      vllm serve meta-llama/Llama-3.1-8B-Instruct --api-key {SHORT} --max-model-lenght 9 --api-key "$MY_PASSWORD"
    resources: {{limits: {{nvidia.com/gpu: 1}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: plain}}
data: {{one: Wm05dlltRnk{MARK}}}
stringData:
  two: >-
    opaque{MARK}text
"""
BROKEN = f"kind: Pod\nspec:\n  HF_TOKEN: {HUB}\n  api_key: '{WORD}'\n  broken: [&{HUB}, *{HUB}x\n {KEY}: {{"
ALIAS = f"kind: Pod\nspec: *{HUB}\n"
TEXTS = {"pod": POD, "script": SCRIPT, "broken": BROKEN, "alias": ALIAS}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TEXTS)
def test_no_secret_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, form: str) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(TEXTS[name])
    run(("gate", str(file), "--format", form))
    run(("gate", str(file), "--format", form, "--write-baseline", str(tmp_path / "baseline.json")))
    printed = capsys.readouterr()
    shown = printed.out + printed.err + (tmp_path / "baseline.json").read_text()
    assert str(file) in shown
    assert [secret for secret in (MARK, AMAZON, "correct", "Wm05") if secret in shown] == []


@pytest.mark.parametrize("name", TEXTS)
def test_no_secret_is_in_a_page(tmp_path: Path, name: str) -> None:
    file, page = tmp_path / "pod.yaml", tmp_path / "page.html"
    file.write_text(TEXTS[name])
    run(("gate", str(file), "--html", str(page)))
    run(("checklist", "--deployment", str(file), "--html", str(page.with_suffix(".list.html"))))
    shown = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html"))
    assert str(file) in shown
    assert [secret for secret in (MARK, AMAZON, "battery", "Wm05") if secret in shown] == []


def test_the_fixtures_are_read_and_found_faulty(tmp_path: Path) -> None:
    """What is not found cannot leak: offending lines with secrets are there to be printed."""
    for name in ("pod", "script"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(TEXTS[name])
        found = gate([str(file)], Policy())
        assert found.checked, name
        lines = found.reads[0].text.split("\n")
        assert any(STRUCK in lines[finding.line - 1] for finding in found.findings), name


def test_lines_stay_where_they_are(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    shown = gate([str(file)], Policy()).reads[0].text
    assert len(shown.split("\n")) == len(POD.split("\n"))
    assert "    resources: {limits: {nvidia.com/gpu: 1}}" in shown.split("\n")


@pytest.mark.parametrize(
    "text",
    [
        f"# HF_TOKEN={SHORT}\nvllm serve x",
        f'os.environ["HF_TOKEN"] = "{SHORT}"',
        f'secret = modal.Secret.from_dict({{"HF_TOKEN": "{SHORT}"}})',
        f'cmd = ["vllm", "serve", "x", "--api-key", "{SHORT}"]',
        f"llm = LLM(model='x', hf_token='{SHORT}')",
        f"vllm serve x --api-key={SHORT}",
        f"vllm serve x --api-key   '{SHORT}'",
        f"export OPENAI_API_KEY='{SHORT}'",
        f"environment:\n  - HF_TOKEN={SHORT}",
        f"hfToken: {SHORT}",
        f"apiKey: {SHORT}",
        f"model:\n  clientSecret: >\n    {SHORT}\n",
        f"auth: &a {SHORT}\n",
        f'{{"password": "{SHORT}", "b": 1}}',
        f"postgres://user:{SHORT}@host/db",
    ],
)
def test_every_way_to_write_one_is_struck_out(text: str) -> None:
    try:
        nodes = list(documents(text, "x"))
    except Exception:
        nodes = []
    shown, _ = without_secrets(text, nodes)
    assert SHORT not in shown
    assert STRUCK in shown


@pytest.mark.parametrize(
    "text",
    [
        "--max-num-batched-tokens 8192",
        "args: [--max-num-batched-tokens, '8192']",
        "num_speculative_tokens: 5",
        "tokenizer: meta-llama/Llama-3.1-8B",
        "--tokenizer-mode auto",
        "env:\n- name: HF_TOKEN\n  valueFrom:\n    secretKeyRef: {name: hub, key: token-name}\n",
        "HF_TOKEN: $HF_TOKEN\n",
        "HF_TOKEN: ${HF_TOKEN}\n",
        "--api-key $(VLLM_API_KEY) --port 80",
        "image_token: 3\n",
        "key: nvidia.com/gpu\n",
        "max_tokens: 512\n",
        "https://host.example/v1:80/a@b",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text, list(documents(text, "x")))[0] == text


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "--api-key", "apiKey", "ngc_api_key", "DB_PASSWORD", "hf-token", "s.auth"]
)
def test_names_of_secrets(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize(
    "name", ["tokens", "--max-num-batched-tokens", "tokenizer", "key", "monkey", "eos_token", "name"]
)
def test_names_of_no_secrets(name: str) -> None:
    assert not secret_name(name)


def test_words_about_an_option_are_no_value_of_it() -> None:
    text = "--api-key is no option of vllm 0.8.5; nearest: --hf-token"
    assert redacted(text) == text
    assert redacted(f"took --api-key={SHORT}") == f"took --api-key={STRUCK}"


@pytest.mark.parametrize("value", [SHORT, f'"{WORD}"', KEY, f"[{SHORT}]"])
def test_what_is_struck_out_stays_as_it_is(value: str) -> None:
    once = redacted(f"took --api-key={value} --max-model-len 8192, api_key: {value}")
    assert redacted(once) == once
    assert f"{STRUCK}]" not in once or value.endswith("]")


def test_secrets_of_a_file_beside_are_known_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable of `.env` ends in a value that the engine would refuse, and the refusal is quoted."""
    (tmp_path / ".env").write_text(f"VLLM_API_KEY=plainword{MARK}\nLENGTH=$VLLM_API_KEY\n")
    file = tmp_path / "compose.yaml"
    file.write_text(
        "services:\n  chat:\n    image: vllm/vllm-openai:v0.10.0\n    env_file: .env\n"
        "    command: --model meta-llama/Llama-3.1-8B --api-key ${VLLM_API_KEY} --max-model-len ${VLLM_API_KEY}\n"
    )
    run(("gate", str(file), "--gpu", "l4"))
    shown = capsys.readouterr().out
    assert STRUCK in shown
    assert MARK not in shown
