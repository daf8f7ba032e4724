"""Text of files that would be more than text if it could: it is shown as it stands, on every page."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import OpenPage
from browser.pages import build
from gate_files import POD
from reader import CONFIG

from infopt.studies.truth import BUNDLED_MEMORY

MARK = "<img src=x onerror=hit=1>"
PIECES = (
    "<script>hit=1</script>",
    MARK,
    "</script><script>hit=1</script>",
    "</title></style></data></table></main><svg onload=hit=1>",
    "\"'><iframe srcdoc='<script>parent.hit=1</script>'>",
    "--><!--<script>",
    "]]>",
    "javascript:hit=1",
    "&lt;b&gt;",
    "${hit=1}",
    "\u2028\u2029",
    "\u202e",
)
EVIL = " ".join(PIECES)
PRINTABLE = "".join(filter(str.isprintable, EVIL))
NAME = PRINTABLE.replace("/", "").strip()  # what a folder can be called
LOAD = ("--hw", "h100", "--isl", "1k", "--osl", "100", "--batch", "4")
TRAFFIC = ("--hw", "h100", "--isl", "1k", "--osl", "100", "--rate", "4/s", "--requests", "100")
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("plan", "--model", "{model}", *LOAD),
    "choices": ("plan", "--model", "{model}", "--ctx", "4k"),
    "boundary": ("boundary", "--model", "{model}", *LOAD),
    "boundary speculative": ("boundary", "speculative", "--model", "{model}", *LOAD),
    "search": ("search", "--model", "{model}", "--isl", "1k", "--osl", "100", "--rate", "2/s", "--hw", "h100"),
    "simulate": ("simulate", "--model", "{model}", *TRAFFIC, "--tenant", "{name}=30%"),
    "checklist": ("checklist", "--model", "{model}", *LOAD, "--items", "{items}", "--signed", "rollback={evil}"),
    "gate": ("gate", "{deployments}", "--policy", "{policy}"),
    "validate": ("validate", "--truth", "{truth}"),
}
# Elements and attributes that no page of ours has, and links that lead out of it.
FOREIGN = """() => [...document.querySelectorAll('*')].flatMap(one => {
  const odd = ['IMG', 'IFRAME', 'OBJECT', 'EMBED', 'LINK', 'BASE', 'TEMPLATE'].includes(one.tagName);
  const names = [...one.attributes].filter(({name, value}) => /^on|^srcdoc$|^style$/.test(name) && !one.closest('.plot')
    || /^(href|src|action)$/.test(name) && !value.startsWith('#')).map(({name, value}) => `${name}=${value}`);
  return odd || names.length ? [`${one.tagName} ${names}`] : [];
})"""


def files(folder: Path) -> dict[str, str]:
    """Files whose every free text is hostile."""
    # A name cannot hold a slash, a path can.
    model = folder / "a<" / "script><img src=x onerror=hit=1>" / NAME
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps({**json.loads(CONFIG), "architectures": ["LlamaForCausalLM"]}))
    evil = json.dumps(EVIL)  # a YAML string too
    items = f"title: {evil}\nsource: {evil}\nitems:\n  - {{id: own, text: {evil}, who: {evil}, how: {evil}}}\n"
    pod = POD.replace("name: chat", f"name: {evil}").replace("--max-model-len=8192", "--max-model-len=131072")
    pod = pod.replace("[--model,", f"[--served-model-name, {evil}, --model,")
    policy = f"accept:\n  - {{rule: unpinned-image, reason: {evil}}}\ndeployments:\n  - {{match: {evil}, gpu: l4}}\n"
    (folder / "deployments").mkdir()
    with BUNDLED_MEMORY.open(encoding="utf-8", newline="") as source:
        rows = list(csv.DictReader(source))[:20]
    with (folder / "truth.csv").open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        writer.writeheader()
        writer.writerows(
            {**row, "id": EVIL, "note": EVIL, "source_url": "javascript:hit=1", "engine_version": EVIL} for row in rows
        )
    for name, text in (("items.yaml", items), (f"deployments/{NAME[:200]}.yaml", pod), ("policy.yaml", policy)):
        (folder / name).write_text(text, encoding="utf-8")
    paths = {name: str(folder / f"{name}.yaml") for name in ("items", "policy")}
    return {
        **paths,
        "model": str(model),
        "deployments": str(folder / "deployments"),
        "truth": str(folder / "truth.csv"),
        "evil": PRINTABLE,
        "name": MARK.replace("=", "\uff1d"),
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_text_stays_text(open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    given = files(tmp_path)
    words = tuple(word.format(**given) for word in COMMANDS[name])
    monkeypatch.setattr(sys, "argv", ["infopt", *words])
    page = open_page(build(words, tmp_path / "built").path)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate(
        "document.querySelectorAll('.plot svg').forEach(one => one.dispatchEvent(new MouseEvent('mousemove')))"
    )
    assert page.evaluate("window.hit") is None
    assert page.evaluate(FOREIGN) == []
    assert MARK in page.locator("main").inner_text()
    # Blocks of data are whole: what is in them did not end them.
    assert page.evaluate(
        "[...document.scripts].filter(s => s.type === 'application/json').map(s => !!JSON.parse(s.text))"
    )


# What would run, load, restyle, send or lead away, were a text ever to get into a page as HTML.
INJECTED = """<script>hit = 1</script><img src="https://example.com/i.png" onerror="hit = 2"><svg onload="hit = 3">
<script>hit = 4</script></svg><style>body { background: red !important }</style><p id="own" style="color: red">text</p>
<iframe srcdoc="<script>parent.hit = 5</script>"></iframe><link rel="stylesheet" href="https://example.com/c.css">
<base href="https://example.com/"><form id="send" action="https://example.com/"></form>
<a id="lead" href="javascript:hit = 6">link</a>"""
LOADED = "performance.getEntriesByType('resource').filter(one => one.transferSize || one.responseStatus).length"


def test_html_in_a_page_would_be_inert(browser: Any, tmp_path: Path) -> None:
    path = build(("plan", "--model", "8b", *LOAD), tmp_path).path
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("<main>", f"<main>{INJECTED}"), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.dataset.charts") == "drawn"
    page.click("#lead")
    page.evaluate("document.querySelector('#send').submit()")
    page.wait_for_timeout(100)
    assert page.evaluate("window.hit") is None
    assert page.url == path.as_uri()
    assert page.evaluate(LOADED) == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('#own')).color") != "rgb(255, 0, 0)"
    page.close()
