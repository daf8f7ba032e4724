"""Texts that are not what runs: Go templates of Helm and of controllers, which somebody must render first.

A values file may hold `{{ .Values.x }}` in a string (the chart renders it), a KServe runtime `{{.Name}}` (its
controller fills that in), a chat template Jinja: none of these is a template of a deployment.
"""

import re
from collections.abc import Iterator

from infopt.gate.nodes import Node, Text, get, text

ACTION = re.compile(
    r"\{\{-?\s*(?:(?:if|else|end|range|with|include|template|define|block|toYaml|tpl|required|default|quote|printf|fail)\b"
    r"|\(\s*(?:include|index|toYaml)\b|\$[A-Za-z_]\w*\s*(?::?=|\.|\||-?\}\})|/\*"
    r"|\.(?:Values|Release|Chart|Capabilities|Template|Files|Spec|ObjectMeta|GlobalConfig)\b)"
)
BARE = re.compile(r"[^'\"#{]*\{\{")
# An object that no reader knows, and is refused all the same: KServe's own presets.
PRESET = "LLMInferenceServiceConfig"
_KSERVE = "serving.kserve.io/"


def template_error(node: Node, name: str) -> str:
    """The one line that refuses an object which is a template, "" where it is none."""
    if text(get(node, "apiVersion")) is None or text(get(node, "kind")) is None:
        return ""
    for scalar in _scalars(node):
        if "{{" in scalar and (match := ACTION.search(scalar)):
            line, column = scalar.within(match.start())
            return f"{name}:{line}:{column}: {_advice(node)}"
    return ""


def _scalars(node: Node) -> Iterator[Text]:
    """Every scalar once, but those of annotations, whose templates are for others (Vault's agent, alerts)."""
    seen: set[int] = set()
    stack = [node]
    while stack:
        here = stack.pop()
        if isinstance(here, Text):
            yield here
        elif isinstance(here, dict | list) and id(here) not in seen:
            seen.add(id(here))
            inner = [v for k, v in here.items() if k != "annotations"] if isinstance(here, dict) else here
            stack.extend(reversed(inner))


def unparsed_template(content: str, name: str) -> str:
    """The one line for a text that is no YAML because it is a template, "" where it is none.

    Only what stands outside quotes keeps a text from being YAML.
    """
    for number, line in enumerate(content.splitlines(), start=1):
        if "{{" in line and BARE.match(line) and (match := ACTION.search(line)):
            return (
                f"{name}:{number}:{match.start() + 1}: is a template: render it first: helm template . | infopt gate -"
            )
    return ""


def _advice(node: Node) -> str:
    if str(get(node, "apiVersion")).startswith(_KSERVE):
        return "is a template that the KServe controller fills in: check the LLMInferenceService that uses it"
    return "is a template: render it first: helm template . | infopt gate -"
