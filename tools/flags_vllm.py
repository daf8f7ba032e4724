"""Flags of `vllm serve` (before it: the OpenAI-compatible server) in one release."""

import ast

from flags_parser import ParserReader
from flags_sources import Sources, UnknownError

from infopt.profiles.flag_data import Flag

PACKAGE = "vllm"
KEEP = (
    "vllm/engine/arg_utils.py",
    "vllm/config",
    "vllm/entrypoints/",
    "vllm/utils",
    "vllm/scripts.py",
    "vllm/model_executor/layers/quantization/__init__.py",
    "vllm/model_executor/model_loader/__init__.py",
    "vllm/transformers_utils/config.py",
    "vllm/reasoning/__init__.py",
    "vllm/renderers/",
)
_SERVE = ("vllm/entrypoints/cli/serve.py", "subparser_init"), ("vllm/scripts.py", "main")
_SERVER = "vllm/entrypoints/openai/cli_args.py", "vllm/entrypoints/common/cli_args.py"
_GET_KWARGS = "_compute_kwargs", "get_kwargs"


def sized_fields(function: ast.FunctionDef, reader: ParserReader, path: str) -> dict[str, str]:
    """Fields for which get_kwargs sets a type that takes suffixes, from the tests around those assignments."""
    local = {
        node.targets[0].id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    sizes: dict[str, str] = {}
    for node in ast.walk(function):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Compare)):
            continue
        text = "".join(ast.unparse(statement) for statement in node.body if isinstance(statement, ast.Assign))
        if "human_readable_int" not in text or "['type']" not in text:
            continue
        named = node.test.comparators[0]
        named = local.get(named.id, named) if isinstance(named, ast.Name) else named
        try:
            found = reader.evaluator.value(named, path)
        except UnknownError:
            continue
        kind = "size_or_auto" if "human_readable_int_or_auto" in text else "size"
        sizes |= dict.fromkeys([str(name) for name in found] if isinstance(found, list) else [str(found)], kind)
    return sizes


def parser_features(files: dict[str, str]) -> set[str]:
    """How the parser of the release reads options."""
    text = "".join(text for path, text in files.items() if path.startswith("vllm/utils"))
    found = {"abbreviations", "equals"}
    found |= {"underscores"} if "class FlexibleArgumentParser" in text else set()
    found |= {"dotted"} if "def create_nested_dict" in text else set()
    if "startswith('-O')" in text or 'startswith("-O")' in text:
        found.add("O_level" if "--optimization-level" in text else "O_value")
    return found | ({"paired"} if "class EnableDisableAction" in text else set())


def _function(sources: Sources, path: str, name: str) -> ast.FunctionDef | None:
    """A function or method of that name in a file."""
    if path not in sources.files:
        return None
    nodes = ast.walk(ast.parse(sources.files[path]))
    return next((node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name), None)


def read(files: dict[str, str]) -> tuple[dict[str, Flag], set[str]]:
    """Flags by name, and how the parser reads options, from the Python files of a release."""
    sources = Sources(files)
    reader = ParserReader(sources)
    features = parser_features(files)
    reader.paired = "paired" in features
    arg_utils = "vllm/engine/arg_utils.py"
    reader.bare_text = "{bool, str, type(None)}" in files[arg_utils]
    for name in _GET_KWARGS:
        if function := _function(sources, arg_utils, name):
            reader.sizes |= sized_fields(function, reader, arg_utils)
    for path, name in _SERVE:
        if function := _function(sources, path, name):
            reader.run(function, path, {}, {"serve_parser"})
    for path in _SERVER:
        if function := _function(sources, path, "make_arg_parser"):
            reader.run(function, path, {})
    return reader.flags, features - {"paired"}
