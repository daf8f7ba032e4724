"""A deployment as a file: plain data written by PyYAML, under a comment that says how it was made."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import yaml

from infopt import __version__
from infopt.reports import search_words
from infopt.studies.emit import Launch, launch
from infopt.studies.planning import Plan
from infopt.studies.search import Search, plan_of, row_of
from infopt.units import format_gib

EmitForm = Literal["helm", "k8s", "compose"]
SECRETS = (
    (re.compile(r"\bhf_\w{6,}"), "hf_..."),
    (re.compile(r"(?<=://)[^/@\s]+(?=@)"), "..."),
    (re.compile(r"(?i)((?:token|password|secret|api[-_]?key)[=: ])\S+"), r"\1..."),
)


def emit_text(result: Search, number: int, form: EmitForm, command: str) -> str:
    """The file of one row of the front; raises InfoptError where the form cannot say it."""
    d = row_of(result, number)
    plan = plan_of(d)
    found = launch(d, plan)
    documents = _documents(found, form)
    numbers = [f"{name}: {text}" for name, text in search_words.deployment_facts(d, plan)]
    said = [
        f"Made by infopt {__version__}: {_form_words(found, form)}",
        f"command: {without_secrets(command)}",
        f"row {number} of the front: {result.model.id}, {plan.scenario.weight_format} weights, "
        f"{plan.scenario.kv_format} cache, {found.images.engine} {found.version}",
        *numbers,
        f"memory: {_memory_words(plan)}",
        *(f"note: {note}" for note in (*found.notes, *search_words.notes(d, plan))),
        *_secret_words(found, form),
    ]
    header = "".join(f"# {comment(line)}\n" for line in said)
    # Through JSON nothing is shared, so that no anchors are written.
    plain = json.loads(json.dumps(documents))
    return header + yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=True, width=1000)


def comment(text: str) -> str:
    """One line, without what could end a comment or what YAML refuses."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))


def without_secrets(command: str) -> str:
    """A command line in which tokens, passwords and keys are dots."""
    for pattern, instead in SECRETS:
        command = pattern.sub(instead, command)
    return command


def _documents(found: Launch, form: EmitForm) -> list[dict[str, Any]]:
    if form == "k8s":
        from infopt.reports.emit_k8s import documents
    elif form == "helm":
        from infopt.reports.emit_helm import documents
    else:
        from infopt.reports.emit_compose import documents
    return documents(found)


def _form_words(found: Launch, form: EmitForm) -> str:
    if form == "helm":
        return f"values of the Helm chart {found.images.chart.name}" if found.images.chart else form
    return "objects for kubectl apply -f" if form == "k8s" else "services for docker compose -f FILE up"


def _memory_words(plan: Plan) -> str:
    m = plan.memory
    return (
        f"{format_gib(m.used_bytes_per_gpu)} of {format_gib(m.capacity_bytes_per_gpu)} a device: weights "
        f"{format_gib(m.weights_bytes_per_gpu)}, cache at the load {format_gib(m.kv_bytes_per_gpu)}"
    )


def _secret_words(found: Launch, form: EmitForm) -> Iterator[str]:
    """Where the token of gated repositories comes from."""
    if found.local:
        return
    if form == "compose":
        yield "gated models: the variable HF_TOKEN of the shell, or of an .env file, is passed on"
    else:
        needed = "needed by the chart" if form == "helm" else "may be missing"
        yield f"gated models: the key `token` of the secret `hf-token` ({needed})"
