"""Write docs/commands from the program itself: `python tools/docs_cli.py`.

A command's page has its usage, examples and options as `--help` has them, the options in their families; a group's page
has its commands one below the other. Pages of commands that are gone are deleted.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
import typer.main

from infopt.cli import MODULES, app
from infopt.reports.markdown import escape

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = DOCS / "commands"
# Pages that explain a command beside the one of its own name.
MORE = {
    "plan": ("memory", "cost", "formulas", "hardware"),
    "boundary": ("prefix_trace",),
    "simulate": ("simulate_many", "traces", "served_rates"),
    "gate": ("policy", "ci"),
    "observe": ("advice", "start_logs"),
    "probe": ("calibration",),
    "validate": ("accuracy",),
    "reproduce": ("sources",),
    "schema": ("json",),
    "models": ("catalogue",),
    "hardware": ("catalogue",),
}
OWN = "Of this command"

HEAD = """\
# Commands

Generated from the program by `tools/docs_cli.py`; `infopt COMMAND --help` prints the same. `TOKENS` take `2000` or `2k`
(`k` is 1024), `TIME` `40ms` or `1.5s`, `RATE` `5/s` or `300/min`, `SHARE` `0.9` or `90%`, `BYTES` `1GiB`, `USD` `2.49`.
Results go to standard output, everything else to standard error; [json.md](../json.md) has the keys of `--json`.

| command | does |
|:---|:---|
"""


def pages() -> dict[str, str]:
    """Every page by its file name."""
    commands = program().commands
    return {"index.md": index(commands), **{f"{name}.md": page(name, command) for name, command in commands.items()}}


def program() -> Any:
    """The program with all its commands."""
    for module in MODULES.values():
        import_module(module)
    return typer.main.get_command(app)


def index(commands: dict[str, Any]) -> str:
    """The list of the commands."""
    rows = [f"| [{name}]({name}.md) | {prose(first(commands[name].help))} |\n" for name in sorted(commands)]
    return HEAD + "".join(rows)


def page(name: str, command: Any) -> str:
    """A command, and where it is a group each of its own."""
    parts = [f"# infopt {name}", *body(("infopt", name), command, "##")]
    for child, below in getattr(command, "commands", {}).items():
        parts += [f"## infopt {name} {child}", *body(("infopt", name, child), below, "###")]
    more = [other for other in (name, *MORE.get(name, ())) if (DOCS / f"{other}.md").is_file()]
    if more:
        parts.append("More: " + ", ".join(f"[{other}.md](../{other}.md)" for other in more) + ".")
    return "\n\n".join(parts) + "\n"


def body(path: tuple[str, ...], command: Any, level: str) -> Iterator[str]:
    """Usage, help, examples, arguments, options and exit statuses."""
    context = typer.Context(command, info_name=" ".join(path))
    paragraphs = [paragraph for paragraph in (command.help or "").split("\n\n") if paragraph]
    examples = [paragraph for paragraph in paragraphs if paragraph.startswith("\b\n")]
    yield prose(first(command.help))
    yield fenced("text", " ".join(["usage:", context.command_path, *command.collect_usage_pieces(context)]))
    if examples:
        yield fenced("sh", "\n".join(example.removeprefix("\b\n") for example in examples))
    yield from (prose(paragraph) for paragraph in paragraphs[1:] if paragraph not in examples)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    if arguments:
        yield table("argument", [record(p, context) for p in arguments])
    yield from options(command, context, level)
    if command.epilog:
        yield prose(command.epilog)


def options(command: Any, context: typer.Context, level: str) -> Iterator[str]:
    """The options, each family under its docstring."""
    given = {p.name: p for p in command.params if p.param_type_name == "option" and not p.hidden}
    if not given:
        return
    families = inspect.getclosurevars(inspect.unwrap(command.callback)).nonlocals.get("families", ())
    named = [(inspect.getdoc(f) or "", [n for n in inspect.signature(f).parameters if n in given]) for f in families]
    taken = {name for _, names in named for name in names}
    groups = [(OWN, [name for name in given if name not in taken]), *named]
    yield f"{level} Options"
    for heading, names in groups:
        if names:
            title = " ".join(heading.partition("\n\n")[0].split()).rstrip(".")
            yield f"{title}:"
            yield table("option", [record(given[name], context) for name in names])


def record(parameter: Any, context: typer.Context) -> tuple[str, str, str]:
    """How a parameter is written, what it does, and what holds without it."""
    written, text = parameter.get_help_record(context)
    if parameter.param_type_name == "argument":
        written = written.partition(" <")[0]
    said = re.fullmatch(r"(?P<does>.*?) *(?:\[(?:default: (?P<default>.*)|required)\])?", text, re.DOTALL)
    assert said is not None
    default = f"`{said['default']}`" if said["default"] else "required" if parameter.required else ""
    return f"`{written}`".replace("|", "\\|"), prose(said["does"]), default


def table(kind: str, rows: list[tuple[str, str, str]]) -> str:
    """The parameters of a kind."""
    lines = [f"| {kind} | does | default |", "|:---|:---|:---|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def first(help: str | None) -> str:
    """The first paragraph: what a command does."""
    return " ".join((help or "").partition("\n\n")[0].split())


def prose(text: str) -> str:
    """A paragraph, options in it as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*)", r"`\1`", " ".join(escape(text).split()))


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def main() -> None:
    PAGES.mkdir(exist_ok=True)
    wanted = pages()
    for path in PAGES.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
