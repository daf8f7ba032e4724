"""The Python API: what it returns is what `--json` prints, its keywords are the command line's options."""

import copy
import doctest
import inspect
import json
import keyword
import pickle
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import infopt
from infopt import InfoptError, api, boundary, gate_files, gate_text, plan, search, simulate
from infopt.api_options import keywords
from infopt.cli import run
from infopt.reports.notebook import notebook_html

ROOT = Path(__file__).resolve().parent.parent
SMALL: dict[str, Any] = {"model": "8b", "hw": "h100", "ctx": "8k"}
CALLS: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = [
    ("plan", plan, (), SMALL),
    ("plan", plan, (), {"model": "70b", "hw": "h100:4", "isl": 2000, "osl": 300, "batch": 32, "monthly": "5/s"}),
    ("plan", plan, (), SMALL | {"explain": True, "util": 0.85, "price": ["h100=2.5"], "kv": "fp8"}),
    ("plan", plan, (), {"model": "70b", "hw": "rtx 4090", "ctx": 32768}),
    ("plan", plan, (), {"model": "gpt-oss-120b", "ctx": "8k"}),
    ("plan", plan, (), {"model": "deepseek-v3", "hw": "h200:8", "ctx": "16k", "dp": 2, "tp": 4, "text_only": True}),
    ("boundary", boundary, (), SMALL | {"batch": 16}),
    ("boundary", boundary, ("kv",), SMALL | {"with_": "weights-fp8,prefix-2k"}),
    ("boundary", boundary, ("speculative",), SMALL | {"alpha": 0.7, "draft": "llama-3.2-1b", "rate": "2/s"}),
    ("search", search, (), {"model": "8b", "tpot": "20ms", "rate": "5/s", "isl": "1k", "osl": 256, "hw": "h200,h100"}),
    ("search", search, (), {"model": "70b", "tpot": "1ms", "hw": "h200"}),
    ("simulate", simulate, (), {"model": "8b", "hw": "h100", "isl": 500, "osl": 50, "rate": "4/s", "seed": 3}),
    ("simulate", simulate, (), {"model": "8b", "hw": "h100", "isl": "1k", "osl": 50, "users": 8, "requests": 100,
                                "prefix_caching": False}),
    ("gate", gate_files, ("docs/examples/vllm.yaml",), {}),
    ("gate", gate_files, ("docs/examples",), {"gpu": "h100", "fail_on": "warning"}),
]  # fmt: skip


def words(options: dict[str, Any]) -> list[str]:
    """The options as somebody would type them."""
    found: list[str] = []
    for name, value in options.items():
        option = f"--{name.rstrip('_').replace('_', '-')}"
        if value is True:
            found.append(option)
        elif value is False:
            found.append(f"--no-{option[2:]}")
        elif value is not None:
            for one in value if isinstance(value, list) else [value]:
                found += [option, str(one)]
    return found


@pytest.mark.parametrize(("name", "function", "first", "options"), CALLS)
def test_an_answer_is_what_json_prints(
    name: str,
    function: Any,
    first: tuple[str, ...],
    options: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    typed = [name, *first, *words(options)]
    monkeypatch.setattr(sys, "argv", ["infopt", *typed])
    status = run([*typed, "--json"])
    printed = capsys.readouterr().out
    found = function(*first, **options)
    assert found.to_json() + "\n" == printed
    assert json.dumps(found.to_dict(), indent=2, allow_nan=False) + "\n" == printed
    assert found.exit_status == status
    capsys.readouterr()
    run(typed)
    assert str(found) + "\n" == capsys.readouterr().out
    run([*typed, "--format", "md"])
    if "`infopt plan" not in found.text("md"):  # the page names its own command line
        assert found.text("md") + "\n" == capsys.readouterr().out


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(["8b", "70b", "qwen2.5-32b", "mixtral-8x7b", "gemma-3-27b", "deepseek-v3"]),
    hw=st.sampled_from(["h100", "h100:8", "l40s:2", "mi300x", "2x rtx 4090", "a100-sxm-80gb:4"]),
    ctx=st.one_of(st.integers(256, 130_000), st.sampled_from(["4k", "32k"])),
    batch=st.integers(1, 300),
    weights=st.sampled_from([None, "fp8", "int4"]),
    util=st.sampled_from([None, 0.8, "90%"]),
)
def test_any_plan_equals_the_command_line(**options: Any) -> None:
    import io
    from contextlib import redirect_stderr, redirect_stdout

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        status = run(["plan", *words(options), "--json"])
    printed = json.loads(out.getvalue())
    if "error" in printed:
        with pytest.raises(InfoptError) as raised:
            plan(**options)
        assert printed["error"]["message"] == " ".join(str(raised.value).split())
        assert status == raised.value.exit_status
    else:
        found = plan(**options)
        assert found.to_json() + "\n" == out.getvalue()
        assert found.exit_status == status


def test_attributes_are_the_keys_of_the_contract() -> None:
    found = plan(**SMALL)
    assert found.memory.fits is True
    assert (
        found["memory"]["kv_pool_tokens"] == found.memory.kv_pool_tokens == found.to_dict()["memory"]["kv_pool_tokens"]
    )
    assert found.caveats == found.to_dict()["caveats"]
    assert {"memory", "estimate", "to_dict", "exit_status"} <= set(dir(found))
    assert list(found) == list(found.to_dict())
    with pytest.raises(AttributeError, match="nearest: memory"):
        found.memori  # noqa: B018
    with pytest.raises(KeyError):
        found["memori"]


def test_an_answer_is_not_changed_through_what_it_gives_away() -> None:
    found = plan(**SMALL)
    found.to_dict()["memory"]["fits"] = "changed"
    assert found.memory.fits is True


def test_answers_can_be_copied_and_pickled() -> None:
    found = plan(**SMALL)
    for one in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert one.to_json() == found.to_json()
        assert str(one) == str(found)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "8b", "ctxx": 1}, r"unexpected keyword argument 'ctxx'; nearest: ctx"),
        ({"hw": "h100"}, r"plan\(\) needs model="),
        ({"model": "8b", "hw": ["h100", "h200"]}, r"hw=\['h100', 'h200'\]: it takes a text, a number or a path"),
        ({"model": "8b", "ctx": {}}, r"ctx=\{\}"),
        ({"model": "8b", "batch": True}, r"batch=True: it takes a text"),
        ({"model": "8b", "explain": "yes"}, r"explain='yes': it takes True or False"),
        ({"model": "8b", "json": True}, r"unexpected keyword argument 'json'"),
        ({"model": "8b", "price": [["h100=2"]]}, r"price=\['h100=2'\]: it takes a text, a number or a path, or a list"),
    ],
)
def test_wrong_keywords_are_type_errors_in_one_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says) as raised:
        plan(**options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("function", "first", "options", "says"),
    [
        (plan, (), {"model": "nope"}, "unknown model 'nope'"),
        (plan, (), {"model": "8b", "ctx": "many"}, "--ctx 'many' is not a number of tokens"),
        (plan, (), {"model": "8b", "batch": 1.5}, "--batch '1.5' is not a count"),
        (plan, (), {"model": "8b", "monthly": "5/s"}, "--monthly is of one deployment"),
        (plan, (), {"model": "-nope"}, "unknown model '-nope'"),
        (boundary, (), {"model": "8b"}, "--hw is missing"),
        (boundary, ("magic",), SMALL, "unknown technique 'magic'"),
        (boundary, (), SMALL | {"method": "psychic"}, "'psychic' is not one of"),
        (boundary, (), SMALL | {"capacity": "30000"}, "--capacity"),
        (search, (), {"model": "8b", "tpot": 0.02}, "a unit is needed"),
        (simulate, (), {"model": "8b", "hw": "h100", "batch": 4, "rate": "1/s"}, "--batch 4"),
        (gate_files, ("x.yaml",), {"gpu": "nope"}, "nope"),
    ],
)
def test_what_the_command_line_refuses_is_refused(
    function: Any, first: tuple[str, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InfoptError) as raised:
        function(*first, **options)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: boundary(5, model="8b", hw="h100"),
        lambda: gate_files(None),
        lambda: gate_files([1]),
        lambda: gate_text(5),
    ],
)
def test_arguments_of_a_wrong_type_are_type_errors_in_one_line(call: Any) -> None:
    with pytest.raises(TypeError, match=r"\(\) takes .*, not .*") as raised:
        call()
    assert "\n" not in str(raised.value)


def test_files_of_a_gate_may_be_paths_and_a_text_is_a_file(tmp_path: Path) -> None:
    text = (ROOT / "docs/examples/vllm.yaml").read_text(encoding="utf-8")
    file = tmp_path / "vllm.yaml"
    file.write_text(text, encoding="utf-8")
    one, several, as_text = gate_files(file), gate_files([str(file), file]), gate_text(text)
    assert one.verdict == several.verdict == as_text.verdict == "fail"
    assert several.files == 2
    missing = gate_files(tmp_path / "none.yaml")
    assert missing.exit_status == 2
    assert missing.unreadable


def test_every_keyword_is_an_option_of_its_command() -> None:
    for families in (api.PLAN, api.BOUNDARY, api.SEARCH, api.SIMULATE, api.GATE):
        for name, one in keywords(*families).items():
            assert not keyword.iskeyword(name)
            assert name.isidentifier()
            assert one.option == f"--{name.rstrip('_').replace('_', '-')}"
            assert one.help, name


def test_help_and_notebooks_are_told_the_keywords() -> None:
    signature = inspect.signature(plan)
    assert list(signature.parameters)[:3] == ["model", "hw", "gpus"]
    assert signature.parameters["batch"].default == 1
    assert "ctx  Context that memory is sized for" in (plan.__doc__ or "")


def test_the_package_loads_its_api_when_it_is_asked_for() -> None:
    code = (
        "import sys, infopt; a = {m for m in sys.modules if m.startswith('infopt')}; "
        "infopt.plan; import infopt.gate, infopt.boundaries; from infopt.gate.check import gate; "
        "print(a == {'infopt'}, 'infopt.api' in sys.modules, infopt.gate.__name__, callable(infopt.boundary))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "True", "infopt.gate", "True"]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        infopt.nothing  # type: ignore[attr-defined]  # noqa: B018
    assert {"plan", "boundary", "search"} <= set(dir(infopt))


def test_the_stub_is_current() -> None:
    """Refreshed by `python tools/api_stub.py`."""
    made = runpy.run_path(str(ROOT / "tools" / "api_stub.py"))
    assert (ROOT / "__init__.pyi").read_text(encoding="utf-8") == made["stub"]()
    assert set(made["FUNCTIONS"]) | {"Answer", "InfoptError"} == set(infopt.__all__)


CLIENT = """
from pathlib import Path
from infopt import Answer, InfoptError, boundary, gate_files, plan, search, simulate

def fits(name: str) -> bool:
    try:
        found: Answer = plan(model=name, hw="h100:4", ctx=32768, util="90%", price=["h100=2"])
    except InfoptError:
        return False
    figures: dict[str, object] = found.to_dict()
    return bool(found.memory.fits) and bool(figures)

boundary("kv", model="8b", hw="h100", with_="weights-fp8")
search(model="8b", tpot="20ms", rate="5/s")
simulate(model="8b", hw="h100", rate="5/s", prefix_caching=False)
gate_files(Path("k8s"), fail_on="warning")
"""
WRONG = {
    'plan(model="8b", ctxx=1)': 'Unexpected keyword argument "ctxx"',
    "plan()": 'Missing named argument "model"',
    'plan(model="8b", ctx=[1])': 'Argument "ctx"',
    'gate_files("x", fail_on="never")': 'Argument "fail_on"',
    'boundary("kv", model="8b", method="psychic")': 'Argument "method"',
}


@pytest.mark.slow
def test_type_checkers_see_the_keywords(tmp_path: Path) -> None:
    """As of an installed package: a folder called infopt with py.typed."""
    (tmp_path / "infopt").symlink_to(ROOT, target_is_directory=True)
    script = tmp_path / "client.py"
    script.write_text(CLIENT + "\n".join(WRONG) + "\n", encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", str(script)],
        cwd=tmp_path,
        env={"MYPYPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    first = len(CLIENT.splitlines())
    found = [line for line in checked.stdout.splitlines() if "client.py" in line and ": error:" in line]
    assert len(found) == len(WRONG), checked.stdout + checked.stderr
    for number, (line, says) in enumerate(WRONG.items(), start=first + 1):
        assert any(f"client.py:{number}:" in one and says in one for one in found), (line, found)


class Tags(HTMLParser):
    """The tags and attributes of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(attrs)))


ALLOWED = {*("div", "h1", "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "code", "pre"),
           *("ul", "ol", "li", "br")}  # fmt: skip
HOSTILE = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "![x](https://e.example/p)",
    "</table><iframe src=//e.example>", "`<b>`", "<details><summary>x</summary>", "&lt;script&gt;", "[a]: https://e.example",
    "<https://e.example>", "https://e.example", '" onmouseover="alert(1)',
)  # fmt: skip


def check_inert(html: str) -> None:
    for tag, attributes in Tags(html).seen:
        assert tag in ALLOWED, (tag, html)
        for name, value in attributes:
            assert (name, value) in {("class", "infopt"), ("class", "language-sh")} or name == "style", (name, value)
            if name == "style":
                assert value in ("text-align:left", "text-align:right")


@pytest.mark.parametrize(("name", "function", "first", "options"), CALLS)
def test_every_answer_has_html_without_anything_that_runs(
    name: str, function: Any, first: tuple[str, ...], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    html = function(*first, **options)._repr_html_()
    check_inert(html)
    assert "<table>" in html or name == "search"
    assert len(html) < 100_000
    assert "details" not in html


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str, tmp_path: Path) -> None:
    check_inert(notebook_html(text))
    check_inert(notebook_html(f"### {text}\n\n- {text}\n\n| a |\n|:---|\n| {text} |"))
    deployment = (ROOT / "docs/examples/vllm.yaml").read_text(encoding="utf-8")
    found = gate_text(deployment.replace("Qwen/Qwen2.5-32B-Instruct", json.dumps(text)))
    check_inert(found._repr_html_())
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    (folder / "x.yaml").write_text(deployment, encoding="utf-8")
    check_inert(gate_files(folder)._repr_html_())


def test_a_hostile_model_is_no_html_in_markdown(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    sizes = {"hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "intermediate_size": 14336}
    names = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps({**names, **sizes, "vocab_size": 1000}), encoding="utf-8")
    given = {"model": folder, "hw": "h100", "isl": 500, "osl": 50}
    for found in (plan(**given), boundary(**given), boundary("kv", **given)):
        assert "<img" not in found.text("md")
        assert "&lt;img" in found.text("md")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("<>&\"'`*_[]()!|#-\\\n abcx:/="), max_size=80))
def test_any_text_stays_text(text: str) -> None:
    check_inert(notebook_html(text))


def test_the_sessions_of_the_page_and_of_the_functions_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = doctest.testfile(str(ROOT / "docs" / "api.md"), module_relative=False, optionflags=doctest.FAIL_FAST)
    functions = doctest.testmod(api)
    assert page.attempted > 10
    assert functions.attempted == 6
    assert page.failed == functions.failed == 0
