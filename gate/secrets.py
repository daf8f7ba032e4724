"""Keys, tokens and passwords of a file, so that none of them reaches an output.

Found by their names (variables, options, keys of mappings, objects of kind Secret) and by their shape (hf_..., sk-...,
AKIA..., credentials in addresses). A reference to a value elsewhere (`$TOKEN`, `$(TOKEN)`) is no secret.
The text of a file is kept with its secrets struck out; what is said of it goes through `Secrets.said`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from infopt.frozen import dataclass
from infopt.gate.nodes import Node, Text, walk

if TYPE_CHECKING:
    from infopt.gate.case import Case
    from infopt.gate.deployment import Deployment
    from infopt.gate.finding import Finding

STRUCK = "[redacted]"
# Shorter values are struck out where they stand; as words of a sentence they could be anything.
LEAST_CHARACTERS = 8
# Bounds for hostile files: values looked for in the whole text, and lines that are taken apart.
MOST_LOOKED_FOR, MOST_LINE_CHARACTERS = 200, 20_000
NAME = re.compile(
    r"(^|[-_.])((api|access|secret|private|auth|account|encryption|signing|license|subscription|master|client|storage)"
    r"[-_]?keys?([-_]?id)?|apikeys?|(access|auth|api|hub|hf|bearer|refresh|id)?tokens?|secrets?|passw(or)?ds?|"
    r"passwd|passphrase|credentials?|auth|authorization|connection[-_]?string|pwd)$"
)
# Counts of tokens and their kinds are what deployments are about.
NO_SECRET = re.compile(r"(tokens|(bos|eos|pad|unk|sep|cls|mask|image|audio|stop|end|start|special)[-_]token)$")
TOKEN_LISTS = re.compile(r"(api|access|auth|hf|bearer|refresh)[-_]?tokens$")
SHAPE = re.compile(
    r"(?<![\w-])(hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|nvapi-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|"
    r"github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{12,}|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|"
    r"(AKIA|ASIA)[A-Z0-9]{12,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?|ya29\.[A-Za-z0-9_-]{16,})"
    r"|(?<=://)[^\s/@:'\"]*:[^\s/@'\"]+(?=@)|(?i:(?<=bearer )[A-Za-z0-9._~+/=-]{6,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^\n]*"
)
# A name and what separates it from its value; a space alone separates only an option from its value.
PAIR = re.compile(
    r"(?<![\w-])(?:(?P<option>--[A-Za-z][\w.-]{1,80})(?P<space>[ \t]+)(?!-)"
    r"|(?P<name>-{0,2}[A-Za-z_][\w.-]{1,80})(?:[\"'\]]{0,3}[ \t]*[=:][ \t]*|[\"'][ \t]*,[ \t]*))"
)
VALUE = re.compile(
    r"\$\{[^}\n]*\}|\$\([^)\n]*\)|\"(?:[^\"\\\n]|\\.)*\"?|'[^'\n]*'?|(?i:(?:bearer|basic)[ \t]+)?[^\s\"',;&|)}\]]+"
)
REFERENCE = re.compile(
    r"\$[A-Za-z_]\w*|\$\([^)]*\)|\$\{[^}:]*\}|.*\{\{.*|\$?<.*>|None|null|true|false|\"\"|''", re.DOTALL
)
HINT = re.compile(r"(?i)token|key|secret|passw|passphrase|credential|auth|bearer|connection|pwd|://[^\s/]*@")


@cache
def secret_name(name: str) -> bool:
    """Whether a variable, option or key of this name holds a secret.

    >>> secret_name("HF_TOKEN"), secret_name("--max-num-batched-tokens"), secret_name("apiKey")
    (True, False, True)
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip("-\"' "))
    lowered = spaced.lower()
    return bool(NAME.search(lowered)) and (not NO_SECRET.search(lowered) or bool(TOKEN_LISTS.search(lowered)))


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of one file: values long enough to be struck out wherever they turn up, the longest first."""

    values: tuple[str, ...] = ()

    def said(self, text: str) -> str:
        """What is said of the file, without them."""
        for value in self.values:
            if value in text:
                text = text.replace(value, STRUCK)
        return struck_shapes(text)

    def and_those_of(self, deployments: Iterable["Deployment"]) -> "Secrets":
        """With values that deployments take from other files: variables and options that hold secrets."""
        values = list(self.values)
        for one in deployments:
            values += [value for name, value in one.found.environment.items() if secret_name(name)]
            values += [str(setting.value) for name, setting in one.settings.items() if name == "secret"]
            values += [_value_of(first.text, second.text) for first, second in pairwise(one.found.arguments)]
        return secrets_of(value for value in values if value and not REFERENCE.fullmatch(value))

    def of_finding(self, finding: "Finding") -> "Finding":
        """A finding without them."""
        said = self.said
        return replace(
            finding,
            path=said(finding.path),
            deployment=said(finding.deployment),
            message=said(finding.message),
            detail=said(finding.detail),
            remedy=said(finding.remedy),
            cause=said(finding.cause),
            suppressed=None if finding.suppressed is None else said(finding.suppressed),
        )

    def of_case(self, case: "Case") -> "Case":
        """A case whose words can be shown."""
        said, deployment = self.said, case.deployment
        shown = replace(
            deployment,
            found=replace(deployment.found, name=said(deployment.found.name)),
            model=None if deployment.model is None else said(deployment.model),
            version=None if deployment.version is None else said(deployment.version),
        )
        return replace(
            case,
            deployment=shown,
            refused=said(case.refused),
            unknown=tuple(replace(u, fact=said(u.fact), settle=said(u.settle)) for u in case.unknown),
            assumed=tuple(said(text) for text in case.assumed),
        )


def _value_of(option: str, following: str) -> str:
    """What follows an option that holds a secret."""
    return following if option.startswith("-") and "=" not in option and secret_name(option) else ""


def secrets_of(values: Iterable[str]) -> Secrets:
    """Values to strike out wherever they turn up; of several lines, each line."""
    pieces = {line.strip() for value in values for line in value.splitlines()}
    return Secrets(tuple(sorted((p for p in pieces if len(p) >= LEAST_CHARACTERS), key=len, reverse=True)))


def without_secrets(text: str, nodes: Iterable[Node] = ()) -> tuple[str, Secrets]:
    """A file's text with its secrets struck out, line by line, and what they are."""
    if not HINT.search(text) and not SHAPE.search(text):
        return text, Secrets()
    placed = [value for node in nodes for value in _of_node(node)]
    found = [str(value) for value in placed]
    lines = text.split("\n")
    for value in placed:
        _strike(lines, value)
    struck = "\n".join(lines)
    found += [match[0] for match in SHAPE.finditer(struck)]
    struck = struck_shapes(struck)
    spans = list(_spans(struck))
    found += [struck[start:end].strip("\"'") for start, end in spans]
    secrets = secrets_of(found)
    # Placed values are struck out where they stand; of many, not every one is looked for everywhere else.
    elsewhere = Secrets(secrets.values[:MOST_LOOKED_FOR])
    return elsewhere.said(_without(struck, spans)), secrets


def _strike(lines: list[str], value: Text) -> None:
    """Strike out a value on the lines it stands on."""
    start = value.line - 1
    pieces = [piece.strip() for piece in value.splitlines() if piece.strip()]
    for number in range(start, min(len(lines), start + len(pieces) + 2)):
        if len(lines[number]) > MOST_LINE_CHARACTERS:
            lines[number] = STRUCK
            continue
        for piece in pieces[:MOST_LOOKED_FOR]:
            if number > start:
                lines[number] = lines[number].replace(piece, STRUCK)
            elif piece in lines[number][value.column - 1 :]:
                before, after = lines[number][: value.column - 1], lines[number][value.column - 1 :]
                lines[number] = before + after.replace(piece, STRUCK, 1)


def _of_node(document: Node) -> Iterator[Text]:
    """The secret scalars of a document."""
    for node in walk(document):
        if isinstance(node, dict):
            yield from _of_mapping(node)
        elif isinstance(node, list):
            for option, value in pairwise(node):
                if isinstance(option, Text) and option.startswith("-") and "=" not in option and secret_name(option):
                    yield from _value(value)


def _of_mapping(node: dict[str, Node]) -> Iterator[Text]:
    name = node.get("name")
    if isinstance(name, Text) and secret_name(name):
        yield from _value(node.get("value"))
    if node.get("kind") == "Secret":
        for key in ("data", "stringData"):
            held = node.get(key)
            for value in held.values() if isinstance(held, dict) else ():
                yield from _value(value)
    for key, value in node.items():
        if isinstance(value, Text) and secret_name(key):
            yield from _value(value)


def _value(node: Node) -> Iterator[Text]:
    if isinstance(node, Text) and node.strip() and not REFERENCE.fullmatch(node.strip()):
        yield node


def redacted(text: str) -> str:
    """A text without what looks like a secret; a last guard, for `Secrets.said` knows the values themselves.

    >>> redacted("HF_TOKEN=hunter2 --max-model-len=8192")
    'HF_TOKEN=[redacted] --max-model-len=8192'
    """
    shapeless = struck_shapes(text)
    return _without(shapeless, _spans(shapeless, spaced=False))


def struck_shapes(text: str) -> str:
    """A text without values that are secrets by their shape."""
    return SHAPE.sub(STRUCK, text)


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text with spans of it struck out."""
    pieces, done = [], 0
    for start, end in spans:
        pieces += [text[done:start], STRUCK]
        done = end
    return "".join([*pieces, text[done:]])


def _spans(text: str, spaced: bool = True) -> Iterator[tuple[int, int]]:
    """Where values of secret names stand, from left to right."""
    position = 0
    while match := PAIR.search(text, position):
        position = match.end()
        if (match["space"] and not spaced) or not secret_name(match["option"] or match["name"]):
            continue
        if text.startswith(STRUCK, position):
            continue
        value = VALUE.match(text, position)
        if value is None:
            continue
        position = value.end()
        plain = value[0].strip("\"'")
        if plain and plain != STRUCK and not REFERENCE.fullmatch(plain):
            yield value.span()
