"""What the MCP server offers: each tool with its input schema, made from the options, and how it is answered.

Nothing here knows the SDK; a call is answered in a process of its own (mcp_guard.py says what that may touch).
"""

import json
import os
import traceback
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any

from infopt import api
from infopt.answer import Answer
from infopt.api_options import Keyword, keywords
from infopt.errors import InfoptError, unknown_name

# The network, other processes and what is kept elsewhere on this machine are no business of a tool.
NOT_OFFERED = {"online", "workers", "scheduler", "baseline", "policy"}
# Where the option's own text offers what a tool does not.
DESCRIPTIONS = {
    "hw": "h100, h100:8, '2x rtx 4090', p5.48xlarge, custom:80GB:3.35TB/s",
    "calibration": "A calibration record under the server's root: what `infopt probe` measured on this hardware.",
}
MOST_INPUT_CHARACTERS = 1_000_000
MOST_ANSWER_CHARACTERS = 400_000
MOST_ERROR_CHARACTERS = 2_000
ROWS = 5


@dataclass(frozen=True)
class Tool:
    """One tool.

    schema  name of the JSON Schema that its structured answer fulfils
    inputs  properties of its arguments
    needs   those that must be there
    rows    the list of the answer that is cut to `rows`, where it is long
    """

    name: str
    title: str
    description: str
    schema: str
    inputs: Mapping[str, Any]
    needs: tuple[str, ...]
    answer: Callable[[dict[str, Any]], Answer]
    rows: str | None = None

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        found = {"type": "object", "properties": dict(self.inputs), "additionalProperties": False}
        return found | {"required": list(self.needs)} if self.needs else found

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of its structured answer."""
        from infopt.reports.schemas import schema_text

        schema: dict[str, Any] = json.loads(schema_text(self.schema))
        return schema


@cache
def tools() -> dict[str, Tool]:
    """The tools by name."""
    return {tool.name: tool for tool in (*_of_scenarios(), *_of_traffic(), *_of_catalogues())}


def _of_scenarios() -> list[Tool]:
    from infopt.boundaries.registry import techniques
    from infopt.cli_options import ScenarioOptions

    plan, scenario = _properties(*api.PLAN), _properties(ScenarioOptions)
    ids = [one.id for one in techniques()]
    technique = {"type": "string", "enum": ids, "description": "Only this one, in full."}
    return [
        Tool(
            "plan",
            "Plan a deployment",
            "Does a model fit on named hardware, how many sequences and how long a context, how fast at most and by "
            "estimate, what it costs. Every figure is computed; null is not known.",
            "plan",
            plan,
            ("model", "hw"),
            lambda given: api.plan(**given),
        ),
        Tool(
            "choose_hardware",
            "Hardware that holds a model",
            "The accelerators that hold a model at a context, by weight format, fewest devices first.",
            "choices",
            {name: one for name, one in scenario.items() if name != "hw"} | _rows("the choices"),
            ("model",),
            lambda given: api.plan(**given),
            "choices",
        ),
        Tool(
            "boundary",
            "What each optimization gains",
            "Gain, verdict and the value at which the verdict flips, of every optimization technique or of one.",
            "boundary",
            {"technique": technique} | _properties(*api.BOUNDARY),
            ("model", "hw"),
            lambda given: api.boundary(**given),
        ),
    ]


def _of_traffic() -> list[Tool]:
    return [
        Tool(
            "search",
            "The best deployments",
            "The Pareto front of deployments that meet latency targets, a rate and a budget, with engine commands.",
            "search",
            _properties(*api.SEARCH) | _rows("the front"),
            ("model",),
            lambda given: api.search(**given, **({"workers": 1} if given.get("simulate") else {})),
            "front",
        ),
        Tool(
            "simulate",
            "Traffic against a deployment",
            "Requests over time through an engine's scheduler: waits and their tails, goodput, saturation.",
            "simulate",
            _properties(*api.SIMULATE),
            ("model", "hw"),
            lambda given: api.simulate(**given),
        ),
        Tool(
            "gate",
            "Check deployment files",
            "Findings and verdict for deployment files (Kubernetes, Helm values, Compose, scripts, ...): give `text`, "
            "the content of one file, or `files`, paths under the server's root.",
            "gate",
            {
                "text": {"type": "string", "description": "The content of one deployment file."},
                "files": {"type": "array", "items": {"type": "string"}, "description": "Files and folders."},
            }
            | _properties(*api.GATE),
            (),
            _gate,
        ),
    ]


def _of_catalogues() -> list[Tool]:
    pattern = {"pattern": {"type": "string", "description": "Words that a name must hold."}}
    rule = {"rule": {"type": "string", "description": "Only this one, in full."}}
    from infopt.cli_options import ScenarioOptions

    model = {
        "model": {"type": "string", "description": "As model of plan."},
        "ctx": _properties(ScenarioOptions)["ctx"],
    }
    hardware = {"hw": {"type": "string", "description": "As hw of plan."}}
    return [
        Tool("list_models", "Models", "Models of the catalogue by name.", "models", pattern, (), _models),
        Tool("show_model", "A model", "Geometry, parameters and cache of a model.", "model", model, ("model",), _model),
        Tool("list_hardware", "Accelerators", "Accelerators of the catalogue.", "hardware", pattern, (), _accelerators),
        Tool(
            "show_hardware",
            "An accelerator",
            "Each figure of an accelerator with its source.",
            "accelerator",
            hardware,
            ("hw",),
            _accelerator,
        ),
        Tool("list_rules", "Rules of the gate", "What the gate looks for, and why.", "rules", rule, (), _rules),
    ]


def answer(name: str, arguments: Mapping[str, Any], root: Path | None) -> dict[str, Any]:
    """What a call is answered with: `text`, the page, and `data`, the object; or `error`, one line."""
    try:
        return _answer(tools()[name], dict(arguments), root)
    except (InfoptError, TypeError) as error:
        line = " ".join(str(error).split())
        return {"error": line if len(line) <= MOST_ERROR_CHARACTERS else line[:MOST_ERROR_CHARACTERS] + "..."}
    except OSError as error:
        return {"error": f"{error.filename or 'a file'}: {error.strerror or error}"}
    except (MemoryError, RecursionError):
        return {"error": f"{name}: too large or nested too deeply to be answered"}
    except Exception as error:  # a client is told in one line, whatever it was
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{PurePath(last.filename).name}:{last.lineno}"
        return {"error": f"{name}: {type(error).__name__} at {where}, a bug of infopt"}


def _answer(tool: Tool, given: dict[str, Any], root: Path | None) -> dict[str, Any]:
    _check(tool, given, root)
    rows = given.pop("rows", ROWS) if tool.rows is not None else 0
    found = tool.answer(given)
    data = found.to_dict()
    if tool.rows is not None:
        data[tool.rows] = data[tool.rows][:rows]
    text = found.text()
    size = len(text) + len(json.dumps(data, separators=(",", ":")))
    if size > MOST_ANSWER_CHARACTERS:
        raise InfoptError(f"the answer has {size:,} characters, more than {MOST_ANSWER_CHARACTERS:,}: ask for less")
    return {"text": text, "data": data}


def _check(tool: Tool, given: Mapping[str, Any], root: Path | None) -> None:
    """Refuse arguments that there are not, that are too large, or that name what a tool must not look at."""
    for name in given:
        if name not in tool.inputs:
            raise unknown_name("argument", name, tool.inputs, f"{tool.name} takes {', '.join(tool.inputs)}")
    for name in tool.needs:
        if given.get(name) is None:
            raise InfoptError(f"{tool.name}: {name} is missing: {tool.inputs[name]['description']}")
    size = len(json.dumps(given))
    if size > MOST_INPUT_CHARACTERS:
        raise InfoptError(f"arguments of {size:,} characters; at most {MOST_INPUT_CHARACTERS:,} are read")
    rows = given.get("rows", ROWS)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise InfoptError(f"rows: {rows!r} is no whole number of at least 1")
    for name, value in given.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and name != "text":
                _check_text(name, text, root)


def _check_text(name: str, text: str, root: Path | None) -> None:
    from infopt.hardware.names import OF_THIS_MACHINE

    if name in ("hw", "gpu") and any(one.strip().lower().split(":")[0] in OF_THIS_MACHINE for one in text.split(",")):
        raise InfoptError(f"{name}: {text}: this server looks at no device; name one, such as h100")
    if name == "calibration" and text == "auto":
        raise InfoptError("calibration: auto: this server looks for no records; name a file under its root")
    leaves = PurePath(text).is_absolute() or text.startswith("~") or ".." in PurePath(text).parts
    if leaves and (root is None or not Path(os.path.realpath(text)).is_relative_to(root)):
        where = f"outside {root}, the folder this server reads" if root else "this server reads no files (--root)"
        raise InfoptError(f"{name}: {text}: {where}")


def _properties(*families: type[Any]) -> dict[str, Any]:
    """The options of some families as properties of a JSON object."""
    return {name: _property(one) for name, one in keywords(*families).items() if name not in NOT_OFFERED}


def _property(one: Keyword) -> dict[str, Any]:
    return _kind(one.annotation) | {"description": DESCRIPTIONS.get(one.name, one.help)}


def _kind(annotation: Any) -> dict[str, Any]:
    """What an option takes, of what it is parsed to: numbers may come as text with a unit."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (kind,) = (one for one in typing.get_args(annotation) if one is not types.NoneType)
        return _kind(kind)
    if typing.get_origin(annotation) is typing.Literal:
        return {"type": "string", "enum": list(typing.get_args(annotation))}
    if annotation == list[str]:
        return {"type": "array", "items": {"type": "string"}}
    return {
        "type": {int: ["integer", "string"], float: ["number", "string"], bool: "boolean"}.get(annotation, "string")
    }


def _rows(of: str) -> dict[str, Any]:
    text = f"Rows of {of} in the structured answer; the text has all of them. Default {ROWS}."
    return {"rows": {"type": "integer", "minimum": 1, "description": text}}


def _gate(given: dict[str, Any]) -> Answer:
    text, files = given.pop("text", None), given.pop("files", None)
    if (text is None) == (files is None):
        raise InfoptError("gate: give text, the content of one file, or files, paths under the server's root")
    if text is not None:
        return api.gate_text(text, **given)
    if not isinstance(files, list) or not files or "-" in files:
        raise InfoptError("gate: files: a list of files and folders; the content of one is given as text")
    return api.gate_files(files, **given)


def _text(given: dict[str, Any], name: str) -> str | None:
    """An argument that is a text, None where it is not given."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InfoptError(f"{name}: {type(value).__name__} in place of a text")
    return value


def _models(given: dict[str, Any]) -> Answer:
    from infopt.reports.render import render_models
    from infopt.studies.model_view import find_models

    return Answer(partial(render_models, find_models(_text(given, "pattern")), None), 0)


def _model(given: dict[str, Any]) -> Answer:
    from infopt.profiles.resolve import resolve_model
    from infopt.reports.render import render_model
    from infopt.studies.model_view import model_view
    from infopt.units import parse_tokens

    ctx = given.get("ctx")
    tokens = None if ctx is None else parse_tokens(str(ctx), "ctx")
    return Answer(partial(render_model, model_view(resolve_model(_text(given, "model") or ""), tokens)), 0)


def _accelerators(given: dict[str, Any]) -> Answer:
    from infopt.reports.render import render_hardware_list
    from infopt.studies.hardware_view import find_hardware

    return Answer(partial(render_hardware_list, find_hardware(_text(given, "pattern"))), 0)


def _accelerator(given: dict[str, Any]) -> Answer:
    from infopt.reports.render import render_hardware
    from infopt.studies.hardware_view import shown_hardware

    return Answer(partial(render_hardware, shown_hardware(_text(given, "hw") or ""), ()), 0)


def _rules(given: dict[str, Any]) -> Answer:
    from infopt.gate.rules.registry import catalogue, rule
    from infopt.reports.rules_report import render_rules

    id = _text(given, "rule")
    return Answer(partial(render_rules, catalogue() if id is None else (rule(id),), full=id is not None), 0)
