"""Python programs that serve: Modal, BentoML, Ray Serve and plain ones, by their syntax tree, never run.

command lines   ["vllm", "serve", MODEL, ...] with what is added to them, "vllm serve ..." in a text
engines         LLM(...), AsyncEngineArgs(...), EngineArgs(...), sgl.Engine(...), LLMConfig(engine_kwargs=...)
devices         gpu="H100:2" of a Modal function, resources={"gpu": 2} of a BentoML service, ray_actor_options
version, image  pip_install("vllm==0.19.0"), from_registry("vllm/vllm-openai:v0.9.2")
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from infopt.frozen import dataclass
from infopt.gate.engines import engine_of_image, started
from infopt.gate.found import Argument, Found, Hardware
from infopt.gate.nodes import Text, at
from infopt.gate.readers.accelerators import asked_of
from infopt.gate.readers.python_calls import Call, calls_of, defaults, returns
from infopt.gate.readers.python_environment import environment_of
from infopt.gate.readers.python_values import (
    UNKNOWN,
    Scope,
    elements,
    keywords,
    name_of,
    pairs,
    plain_data,
    shown,
    value,
)
from infopt.gate.readers.scripts import MENTIONS, container, pinned
from infopt.gate.shell import split
from infopt.units import whole_of

FORM = "Python"
MOST_NODES = 200_000
MOST_CHARACTERS = 1_000_000
MOST_SERVERS = 50
MOST_DEVICES = 1_000_000
MOST_NAMES = 2_000
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Classes whose keyword arguments are the engine's options.
CLASSES = {
    "LLM": "vllm",
    "EngineArgs": "vllm",
    "AsyncEngineArgs": "vllm",
    "Engine": "sglang",
    "Runtime": "sglang",
    "ServerArgs": "sglang",
}
_STARTS = re.compile(r"\bvllm serve\b|\bvllm\.entrypoints\b|\bsglang\.launch_server\b|\bsglang serve\b|\bllama-server\b"
                     r"|\btrtllm-serve\b|\btext-generation-launcher\b|\bollama serve\b"
                     r"|\b(?:docker|podman) run\b")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is started: the names that are known there, and the devices of what surrounds it."""

    names: Scope
    hardware: Hardware
    name: str


def recognises(path: str, content: str) -> bool:
    """Whether the text mentions an engine and is Python by its ending or its first words."""
    python = path.endswith(".py") or re.search(r"^(?:import|from) [\w.]+", content, re.MULTILINE) is not None
    return python and MENTIONS.search(content) is not None


def read(path: str, content: str) -> Iterator[Found]:
    """Every server the program starts."""
    tree = _tree(content)
    if tree is None:
        return
    module = Scope(returns(tree) | _names(tree.body, {}))
    image, around = _image(tree, module), environment_of(tree, module)
    seen: list[tuple[object, ...]] = []
    for place, node in _places(tree, module, Path(path).name if path != "-" else FORM):
        for found in _servers(node, place):
            key = (found.engine, found.model, tuple(a.text for a in (*found.arguments, *found.added)), found.hardware)
            if len(seen) >= MOST_SERVERS:
                return
            if key not in seen:
                seen.append(key)
                version = pinned(content, found.engine)
                environment = found.environment if found.image is not None else {**around, **found.environment}
                whole = replace(found, version=version, environment=environment)
                yield replace(whole, image=found.image or _fitting(image, found.engine))


def _tree(content: str) -> ast.Module | None:
    """The syntax tree of a text of a reasonable size."""
    if len(content) > MOST_CHARACTERS:
        return None
    try:
        tree = ast.parse(content)
        count = sum(1 for _ in ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if count <= MOST_NODES else None


def _fitting(image: Text | None, engine: str) -> Text | None:
    """The image where it holds this engine."""
    known = engine_of_image(image) if image is not None else None
    return image if known is not None and known[0] == engine else None


def _names(body: list[ast.stmt], outer: Mapping[str, ast.AST]) -> dict[str, ast.AST]:
    """Names that statements give a value, lists with what is added to them."""
    found: dict[str, ast.AST] = {}
    for statement in _flat(body):
        if len(found) >= MOST_NAMES:
            break
        target: ast.AST
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, given = statement.targets[0], _without_itself(statement)
        elif isinstance(statement, ast.AnnAssign | ast.AugAssign) and statement.value is not None:
            target, given = statement.target, statement.value
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            target, given = _grown(statement.value)
        else:
            continue
        if not isinstance(target, ast.Name):
            continue
        grows = isinstance(statement, ast.AugAssign | ast.Expr) or given is not getattr(statement, "value", given)
        before = found.get(target.id, outer.get(target.id)) if grows else None
        if grows and before is not None:
            given = ast.copy_location(ast.BinOp(before, ast.Add(), given), given)  # type: ignore[arg-type]
        found[target.id] = given
    return found


def _without_itself(statement: ast.Assign) -> ast.expr:
    """What `x = x + more` adds to x; the value as it is of every other assignment."""
    target, given = statement.targets[0], statement.value
    left = given.left if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add) else None
    same = isinstance(left, ast.Name) and isinstance(target, ast.Name) and left.id == target.id
    return given.right if same and isinstance(given, ast.BinOp) else given


def _grown(called: ast.Call) -> tuple[ast.AST, ast.expr]:
    """`x.extend(more)` and `x.append(one)` as what is added to x."""
    function = called.func
    if isinstance(function, ast.Attribute) and len(called.args) == 1:
        if function.attr == "extend":
            return function.value, called.args[0]
        if function.attr == "append":
            return function.value, ast.copy_location(ast.List([called.args[0]], ast.Load()), called.args[0])
    return called, called


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements with those of `with` and `try` blocks; what is under an `if` may not happen."""
    stack = list(reversed(body))
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, ast.With | ast.Try):
            stack.extend(reversed(statement.body))


def _places(tree: ast.Module, module: Scope, name: str) -> Iterator[tuple[Place, ast.AST]]:
    """Every statement with what is known there: of the module, of its functions, of methods of its classes."""
    called, calls = _called(tree, module), calls_of(tree)
    stack: list[tuple[ast.AST, Place]] = [
        (statement, Place(module, called.get(getattr(statement, "name", ""), Hardware()), name))
        for statement in reversed(tree.body)
    ]
    while stack:
        node, around = stack.pop()
        if isinstance(node, DEFINITIONS):
            hardware = _hardware(node, around.names)
            hardware = hardware if hardware != Hardware() else around.hardware
            usual = {} if isinstance(node, ast.ClassDef) else defaults(node)
            handed = calls.get(node.name, []) if node in tree.body else []
            for call in reversed(handed or [Call(node, {})]):
                outer = Scope({**usual, **call.given}, around.names)
                within = getattr(call.within, "name", node.name)
                known = hardware
                if call.within is not node and isinstance(call.within, DEFINITIONS):
                    known = _hardware(call.within, module)
                    known = known if known != Hardware() else called.get(within, known)
                inner = Place(Scope(_names(node.body, outer), outer), known, f"{name}:{within}")
                stack.extend((statement, inner) for statement in reversed(node.body))
        else:
            yield around, node


def _called(tree: ast.Module, module: Scope) -> dict[str, Hardware]:
    """Functions that are called where a decorator asks for devices, with those: a command may be built elsewhere."""
    found: dict[str, Hardware] = {}
    for statement in tree.body:
        if isinstance(statement, DEFINITIONS):
            hardware = _hardware(statement, module)
            inner = ast.walk(statement) if hardware != Hardware() else iter(())
            for node in inner:
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    found.setdefault(node.func.id, hardware)
    return found


def _hardware(node: Definition, names: Scope) -> Hardware:
    """Devices that a decorator asks for."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            said = keywords(decorator, names)
            for read_one in (_modal, _resources):
                found = read_one(said, names)
                if found is not None:
                    return found
    return Hardware()


def _modal(said: Mapping[str, ast.AST], names: Scope) -> Hardware | None:
    """gpu="H100:2", gpu=f"H100:{N}", gpu=modal.gpu.H100(count=2), gpu=["H100", "A100"]: the first is tried first."""
    node = said.get("gpu")
    several = elements(node, names)
    node = several[0] if several else node
    if node is None:
        return None
    resolved = names.get(node.id, node) if isinstance(node, ast.Name) else node
    called = name_of(resolved) if isinstance(resolved, ast.Call) else ""
    if isinstance(resolved, ast.Call) and ".gpu." in f".{called}":
        own = keywords(resolved, names)
        count, size = value(own.get("count"), names), value(own.get("size"), names)
        name = called.rpartition(".")[2] + (f"-{size}" if isinstance(size, str) else "")
        text = _text(resolved, name)
        return _asked(text, count if isinstance(count, int) else 1)
    whole = value(node, names)
    if not isinstance(whole, str):
        return None
    way = asked_of(_text(node, whole))[0]
    return Hardware(
        count=None if "$" in whole else way.count if way.count is not None else 1,
        counted_at=_text(node, whole),
        resource="gpu",
        named=(("gpu", way.name),) if way.name is not None else (),
    )


def _asked(text: Text, count: int) -> Hardware:
    return Hardware(count=count, counted_at=text, resource="gpu", named=(("gpu", text),))


def _resources(said: Mapping[str, ast.AST], names: Scope) -> Hardware | None:
    """BentoML resources={"gpu": 2, "gpu_type": "nvidia-l4"}; Ray ray_actor_options={"num_gpus": 1}."""
    for key, counted, kind in (("resources", "gpu", "gpu_type"), ("ray_actor_options", "num_gpus", "accelerator_type")):
        entries = pairs(said.get(key), names)
        count = value(entries.get(counted), names)
        number = whole_of(count) if isinstance(count, str) else count
        named = value(entries.get(kind), names)
        if isinstance(number, int | float) or isinstance(named, str):
            device = _text(entries[kind], named) if isinstance(named, str) else None
            return Hardware(
                count=int(number) if isinstance(number, int | float) and 1 <= number < MOST_DEVICES else None,
                counted_at=_text(entries[counted], str(count)) if counted in entries else None,
                resource=f"{key}.{counted}",
                named=((kind, device),) if device is not None else (),
            )
    return None


def _servers(node: ast.AST, place: Place) -> Iterator[Found]:
    """Servers that a statement starts; a list that grows later is read where it is used."""
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    for inner in ast.walk(node):
        found = None
        if isinstance(inner, ast.Assign | ast.AnnAssign):
            # What a name stands for is read with all that is added to it.
            target = inner.targets[0] if isinstance(inner, ast.Assign) else inner.target
            grown = place.names.get(target.id) if isinstance(target, ast.Name) else None
            found = _of_words(grown, place, inner) if isinstance(grown, ast.BinOp | ast.List) else None
            if found is not None:
                yield found
                return
        elif isinstance(inner, ast.List | ast.Tuple):
            found = _of_words(inner, place, inner)
        elif isinstance(inner, ast.Constant | ast.JoinedStr):
            found = _of_text(inner, place)
        elif isinstance(inner, ast.Call):
            found = _of_call(inner, place)
        if found is not None:
            yield found


def _of_words(node: ast.AST | None, place: Place, at_node: ast.AST) -> Found | None:
    """A list that is an engine's command line."""
    words = elements(node, place.names)
    if not words:
        return None
    arguments = tuple(_argument(word, shown(word, place.names), at_node) for word in words)
    # Paths alone are places to look for a program.
    own = started(arguments, {}) if len(arguments) > 1 and not all(a.text.startswith("/") for a in arguments) else None
    if own is None:
        return _container(arguments, place)
    line = getattr(at_node, "lineno", 1)
    return Found(place.name, FORM, line, arguments=own.arguments, engine=own.engine, hardware=place.hardware)


def _container(words: Sequence[Argument], place: Place) -> Found | None:
    """A container that a program starts by a command line."""
    found = container(words, place.name, FORM) if words else None
    return replace(found, hardware=place.hardware) if found and place.hardware != Hardware() else found


def _of_text(node: ast.Constant | ast.JoinedStr, place: Place) -> Found | None:
    """A text that is an engine's command line: `"vllm serve ..."`."""
    whole = value(node, place.names)
    if not isinstance(whole, str) or " " not in whole or not _STARTS.search(whole):
        return None
    text = _argument(node, whole, node)
    own = started((text,), {})
    if own is None:
        return _container([replace(text, text=word.text) for word in split(whole)], place)
    return Found(place.name, FORM, node.lineno, arguments=own.arguments, engine=own.engine, hardware=place.hardware)


def _of_call(node: ast.Call, place: Place) -> Found | None:
    """An engine that is made with keyword arguments."""
    name = name_of(node.func)
    last = name.rpartition(".")[2]
    said = keywords(node, place.names)
    if last == "LLMConfig":
        return _ray_config(node, said, place)
    engine = CLASSES.get(last)
    if engine is None or not {"model", "model_path", "tensor_parallel_size", "tp_size"} & set(said):
        return None
    if last in ("Engine", "Runtime") and name not in ("sgl.Engine", "sglang.Engine", "sgl.Runtime", "sglang.Runtime"):
        return None
    added = tuple(_options(said, place.names))
    return Found(place.name, FORM, node.lineno, added=added, engine=engine, hardware=place.hardware)


def _ray_config(node: ast.Call, said: Mapping[str, ast.AST], place: Place) -> Found:
    """LLMConfig of ray.serve.llm: model_loading_config, accelerator_type, engine_kwargs."""
    loading = pairs(said.get("model_loading_config"), place.names)
    source = loading.get("model_source") or loading.get("model_id")
    kind = value(said.get("accelerator_type"), place.names)
    named = (("accelerator_type", _text(said["accelerator_type"], kind)),) if isinstance(kind, str) else ()
    options = pairs(said.get("engine_kwargs"), place.names)
    sizes = [
        value(options[key], place.names) if key in options else 1
        for key in ("tensor_parallel_size", "pipeline_parallel_size")
    ]
    count = sizes[0] * sizes[1] if all(isinstance(size, int) for size in sizes) else None
    return Found(
        place.name,
        FORM,
        node.lineno,
        added=tuple(_options(options, place.names)),
        model=_text(source, shown(source, place.names)) if source is not None else None,
        engine="vllm",
        hardware=replace(place.hardware, count=count, named=named or place.hardware.named),
    )


def _options(said: Mapping[str, ast.AST], names: Scope) -> Iterator[Argument]:
    """Keyword arguments as the options they are: True alone, False as --no-, dicts as JSON; None says nothing."""
    for key, node in said.items():
        flag = f"--{key.replace('_', '-')}"
        found = value(node, names)
        if found is None:
            continue
        if isinstance(node, ast.Dict) or (found is UNKNOWN and pairs(node, names)):
            whole = plain_data(node, names)
            if whole is not UNKNOWN:
                yield _argument(node, f"{flag}={json.dumps(whole)}", node)
        elif isinstance(found, bool):
            yield _argument(node, flag if found else f"--no-{key.replace('_', '-')}", node)
        elif elements(node, names) is None:
            yield _argument(node, f"{flag}={shown(node, names)}", node)


def _image(tree: ast.Module, module: Scope) -> Text | None:
    """The image a program names: from_registry("vllm/vllm-openai:v0.9.2"), image="..."."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            last = name_of(node.func).rpartition(".")[2]
            first = node.args[0] if node.args and last in ("from_registry", "from_dockerhub") else None
            name = value(first, module)
            if first is not None and isinstance(name, str):
                return _text(first, name)
    return None


def _argument(node: ast.AST, text: str, fallback: ast.AST) -> Argument:
    place = node if hasattr(node, "lineno") else fallback
    return Argument(text, getattr(place, "lineno", 1), getattr(place, "col_offset", 0) + 1, "")


def _text(node: ast.AST, text: str) -> Text:
    return at(text, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)
