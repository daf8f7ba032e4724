"""Refresh the pages whose console blocks are one session in one empty folder: `python tools/docs_sessions.py`.

Such a page is read from top to bottom, as a reader does it:

    ```console            commands after `$ ` run in one shell, and what they print is put below them
    ```yaml, ```bash      with a first line `# path/of/a.file`: the file is written, this line and all
    ```diff               with a first line `--- path/of/a.file`: its lines with `-` become those with `+`
    <!-- given: a.txt = tests/data/b.txt -->    a file that a reader has, and we keep
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "howto").glob("*.md")))

_STEP = re.compile(
    r"^```console\n(?P<console>.*?)^```$"
    r"|^```(?:yaml|bash)\n(?P<file># (?P<path>\S+)\n.*?)^```$"
    r"|^```diff\n--- (?P<changed>\S+)\n(?P<diff>.*?)^```$"
    r"|^<!-- given: (?P<given>\S+) = (?P<source>\S+) -->$",
    re.DOTALL | re.MULTILINE,
)
# Between what two commands print; no command prints it.
_END = "\x1e"


def filled(text: str) -> str:
    """The page with every output as it is now."""
    printed = iter(outputs(text))
    return _STEP.sub(lambda step: step[0] if step["console"] is None else _console(step["console"], printed), text)


def _console(block: str, printed: Iterator[str]) -> str:
    return "".join(["```console\n", *(f"$ {command}\n{next(printed)}" for command in commands(block)), "```"])


def commands(block: str) -> list[str]:
    """The commands of a console block, each with the lines it goes on for after a backslash."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE)


def outputs(text: str) -> list[str]:
    """What each command of a page prints, in order; a pipe of 80 columns gets it, without colour."""
    with tempfile.TemporaryDirectory() as place:
        folder, home = Path(place) / "work", Path(place) / "home"
        for made in (folder, home):
            made.mkdir()
        _program(home / "infopt")
        script = "\n".join(_script(text))
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", script],
            cwd=folder,
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=600,
            check=False,
        )
    printed = done.stdout.split(_END)[:-1]
    if len(printed) != script.count(_END):
        raise ValueError(f"the shell ended after {len(printed)} commands:\n{done.stdout[-2000:]}")
    return ["".join(f"{line.rstrip()}\n" for line in part.splitlines()) for part in printed]


def _program(path: Path) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m infopt "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def _environment(home: Path) -> dict[str, str]:
    nobody = {f"GIT_{who}_{what}": "a reader" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "TMPDIR") if name in os.environ}
    path = f"{home}{os.pathsep}{os.environ['PATH']}"
    return kept | nobody | {"PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}


def _script(text: str) -> Iterator[str]:
    """The page as one shell script; `$?` is that of the command before."""
    files: dict[str, str] = {}
    for step in _STEP.finditer(text):
        if step["console"] is not None:
            yield from (f"{command}\n__=$?; printf '{_END}'; (exit $__)" for command in commands(step["console"]))
            continue
        if step["given"]:
            path, files[step["given"]] = step["given"], (ROOT / step["source"]).read_text(encoding="utf-8")
        elif step["path"]:
            path, files[step["path"]] = step["path"], step["file"]
        else:
            path = step["changed"]
            files[path] = changed(files[path], step["diff"])
        yield f"mkdir -p {shlex.quote(str(Path(path).parent))}; printf %s {shlex.quote(files[path])} > {path}"


def changed(text: str, diff: str) -> str:
    """A file after a change; what is replaced stands in it once."""
    before, after = (_side(diff, signs) for signs in ("- ", "+ "))
    if text.count(before) != 1:
        raise ValueError(f"stands {text.count(before)} times in the file:\n{before}")
    return text.replace(before, after)


def _side(diff: str, signs: str) -> str:
    return "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] in signs)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
