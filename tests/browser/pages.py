"""The pages that tests open: a command line each, and how it is made into a file."""

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate_files import POD, write

from infopt.cli import run

SHORT = ("--isl", "1k", "--osl", "200")
SIMULATE = ("simulate", "--model", "8b", "--hw", "h100", *SHORT, "--rate", "8/s", "--requests", "400")
# name -> command line; {files} is a folder with a good and a bad deployment.
PAGES: dict[str, tuple[str, ...]] = {
    "checklist": ("checklist", "--model", "70b", "--hw", "h100:4", *SHORT, "--batch", "32", "--tpot", "40ms"),
    "boundary": ("boundary", "--model", "8b", "--hw", "h100", *SHORT, "--batch", "32", "--rate", "8/s"),
    "boundary speculative": ("boundary", "speculative", "--model", "8b", "--hw", "h100", *SHORT, "--batch", "32"),
    "boundary trace": ("boundary", "prefix", "--model", "8b", "--hw", "h100", "--batch", "16", "--trace", "mooncake"),
    "search": ("search", "--model", "8b", *SHORT, "--rate", "8/s", "--tpot", "40ms"),
    "search row": ("search", "--model", "8b", *SHORT, "--hw", "h100", "--tpot", "40ms", "--row", "2", "--explain"),
    "search nothing": ("search", "--model", "8b", *SHORT, "--hw", "h100", "--tpot", "1ms", "--ttft", "1ms"),
    "simulate": (*SIMULATE, "--ttft", "1s", "--tpot", "50ms", "--interval"),
    "simulate compared": (*SIMULATE, "--compare", "--chunk 256", "--max-num-seqs 8"),
    "simulate grid": (*SIMULATE, "--ttft", "1s", "--vary", "chunk=512,2k", "--vary", "max-num-seqs=8,64,256"),
    "gate": ("gate", "{files}"),
    "validate": ("validate",),
    "reproduce": ("reproduce",),
}
FILES = {"good.yaml": POD, "bad.yaml": POD.replace("8192", "131072").replace("Llama-3.1-8B-Instruct", "Llama-3.1-70B")}


@dataclass(frozen=True)
class Built:
    """A page, the objects in it, and what its command printed with --json."""

    path: Path
    printed: Any


def build(command: tuple[str, ...], folder: Path) -> Built:
    """Run the command with --html and --json; whatever its verdict is, both are there."""
    files, path = folder / "files", folder / "page.html"
    write(files, FILES)
    words = [word.replace("{files}", str(files)) for word in command]
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = run([*words, "--html", str(path), "--json"])
    assert status in (0, 1, 4), error.getvalue()
    return Built(path, json.loads(out.getvalue()))
