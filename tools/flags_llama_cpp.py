"""Flags of llama-server from `common/arg.cpp`: a reader of its add_opt(common_arg(...)) calls, no C++ parser."""

import json
import re

from infopt.profiles.flag_data import Flag

PACKAGE = "llama-cpp-python"
KEEP = ("common/arg.cpp", "common/common.h")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LITERAL = re.compile(r"-?\d+(\.\d+)?f?|true|false|\"[^\"]*\"")
_OPEN, _CLOSE = "([{", ")]}"


def strip_comments(text: str) -> str:
    """C++ text without comments; strings stay."""
    return _COMMENT.sub(lambda found: found[1] or " ", text)


def balanced(text: str, start: int) -> int:
    """The place after the bracket that closes the one at `start`; strings are skipped."""
    depth, at = 0, start
    while at < len(text):
        if text[at] == '"':
            found = _STRING.match(text, at)
            at = found.end() if found else at + 1
            continue
        if text[at] == "'":  # a character such as '"' or '\\''
            at += 4 if text[at + 1] == "\\" else 3
            continue
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        at += 1
        if depth == 0:
            return at
    return at


def arguments(text: str) -> list[str]:
    """The arguments of a call, split at commas outside brackets and strings."""
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] in _OPEN:
            at = balanced(text, at)
        elif text[at] == '"':
            found = _STRING.match(text, at)
            at = found.end() if found else at + 1
        elif text[at] == ",":
            parts.append(text[start:at].strip())
            start = at = at + 1
        else:
            at += 1
    return [*parts, text[start:].strip()]


def options(text: str) -> list[tuple[list[str], str]]:
    """Every common_arg(...): its arguments, and the calls chained to it."""
    found = []
    for place in re.finditer(r"common_arg\((?=\s*\{)", text):
        end = balanced(text, place.end() - 1)
        chain = re.match(r"(?:\s*\.\w+\((?:[^()\"]|\"[^\"]*\")*\))*", text[end:])
        found.append((arguments(text[place.end() : end - 1]), chain[0] if chain else ""))
    return found


def _examples(chain: str, call: str) -> set[str]:
    found = re.search(rf"\.{call}\(\s*\{{([^}}]*)\}}", chain)
    return set(re.findall(r"LLAMA_EXAMPLE_(\w+)", found[1])) if found else set()


def of_server(chain: str) -> bool:
    """Whether llama-server takes the option."""
    examples = _examples(chain, "set_examples") or {"COMMON"}
    return bool(examples & {"COMMON", "SERVER"}) and "SERVER" not in _examples(chain, "set_excludes")


def struct_defaults(header: str) -> dict[str, str]:
    """Literal defaults of fields of structs, by `params.a.b` path, as JSON."""
    structs: dict[str, dict[str, tuple[str, str]]] = {}
    for place in re.finditer(r"struct (\w+)\s*\{", header):
        body = header[place.end() : balanced(header, place.end() - 1) - 1]
        fields = re.finditer(r"^\s*(?:struct |enum )?([\w:<>]+)\s+(\w+)\s*(?:=\s*([^;]+))?;", body, re.MULTILINE)
        structs[place[1]] = {field[2]: (field[1], (field[3] or "").strip()) for field in fields}
    found: dict[str, str] = {}

    def walk(struct: str, path: str, depth: int) -> None:
        for name, (kind, value) in structs.get(struct, {}).items():
            if kind in structs and depth < 4:
                walk(kind, f"{path}.{name}", depth + 1)
            elif _LITERAL.fullmatch(value):
                found[f"{path}.{name}"] = _json(value)

    walk("common_params", "params", 0)
    return found


def server_defaults(text: str) -> dict[str, str]:
    """Defaults that arg.cpp sets for the server before it adds options."""
    found: dict[str, str] = {}
    for block in re.finditer(r"if \(ex == LLAMA_EXAMPLE_SERVER\) \{([^{}]*)\}", text):
        assigned = re.findall(r"(params(?:\.\w+)+)\s*=\s*([^;]+);", block[1])
        found |= {name: _json(value) for name, value in assigned if _LITERAL.fullmatch(value)}
    return found


def _json(value: str) -> str:
    """A C++ literal as JSON: `0.05f` is 0.05."""
    return json.dumps(json.loads(re.sub(r"(?<=\d)f$", "", value)))


def _default(parts: list[str], defaults: dict[str, str]) -> str:
    """The default that the help text prints: one `default: %d` filled from one field."""
    text = next((part for part in parts if part.startswith("string_format")), "")
    if len(re.findall(r"default: '?%", text)) != 1:
        return ""
    fields = re.findall(r"params(?:\.\w+)+", text)
    return defaults.get(fields[0], "") if len(fields) == 1 and text.count("?") == 0 else ""


def _handler(parts: list[str]) -> tuple[str, str, str]:
    """Kind and type of the value by the parameters of the handler, and its body."""
    lambda_text = next((part for part in reversed(parts) if part.startswith("[")), "")
    head = re.match(r"\[[^\]]*\]\s*\(", lambda_text)
    end = balanced(lambda_text, head.end() - 1) if head else 0
    values = arguments(lambda_text[head.end() : end - 1])[1:] if head else []
    body = lambda_text[end:]
    if not values or values[0].startswith("bool"):
        return "switch", "bool", body
    if len(values) > 1:
        return "values", "str", body
    if values[0].startswith("int"):
        return "value", "int", body
    return "value", "float" if "std::stof(value)" in body else "str", body


def _flag(parts: list[str], chain: str, defaults: dict[str, str]) -> Flag:
    names = _STRING.findall(parts[0])
    long = [name for name in names if name.startswith("--")] or names
    kind, value_type, body = _handler(parts)
    negations = tuple(sorted(_STRING.findall(parts[1]))) if len(parts) > 1 and parts[1].startswith("{") else ()
    env = re.search(r'\.set_env\("(\w+)"\)', chain)
    hint = re.fullmatch(r'"\{([\w,.-]+)\}"', parts[1]) if len(parts) > 1 else None
    removed = "arg_removed(" in body
    instead = re.search(r"(--[\w-]*\w)(?![\w*-])", body) if removed else None
    off = "false" if kind == "switch" and not negations else ""
    return Flag(
        name=long[0],
        aliases=tuple(sorted(name for name in names if name != long[0])),
        negations=negations,
        kind=kind,
        type=value_type,
        default=_default(parts, defaults) or off,
        choices=tuple(sorted(hint[1].split(","))) if hint else (),
        env=env[1] if env else "",
        status="refused" if removed else "",
        replaced_by=instead[1] if instead else "",
    )


def read(files: dict[str, str]) -> tuple[dict[str, Flag], set[str]]:
    """Flags of llama-server by name, and how it reads options."""
    text = strip_comments(files["common/arg.cpp"])
    defaults = struct_defaults(strip_comments(files["common/common.h"])) | server_defaults(text)
    flags: dict[str, Flag] = {}
    for parts, chain in options(text):
        if of_server(chain) and "set_preset_only" not in chain:
            flag = _flag(parts, chain, defaults)
            flags.setdefault(flag.name, flag)
    spaced = re.search(r"std::replace\([^;]*'_', '-'\)", text)
    return flags, {"underscores"} if spaced else set()
