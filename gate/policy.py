"""`infopt.yaml`: what a repository says of its deployments, its load, its targets, and of the rules.

The file is read in `gate/policy_file.py`. What holds for one deployment is `Policy.of(file, name)`: the file's own
sections, then every entry of `overrides:` that matches, the later over the earlier, field by field.
"""

import os
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

from pydantic import Field

from infopt.records import Record


class Workload(Record):
    """What arrives; None where it is not known. `prefix_share` is a part of the input.

    prefixes, prefix_skew  distinct shared prefixes and the Zipf exponent of their popularity
    routing                how requests find a replica
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    rate_per_s: float | None = None
    concurrency: int | None = None
    shared_prefix_tokens: int | None = None
    prefix_share: float | None = None
    prefixes: int | None = None
    prefix_skew: float | None = None
    routing: str | None = None


class Targets(Record):
    """What users were promised, and what it may cost."""

    tpot_s: float | None = None
    ttft_s: float | None = None
    goodput_share: float | None = None
    start_s: float | None = None
    usd_per_million_output_tokens: float | None = None


class Margins(Record):
    """What is kept free: of the device's memory beside one full request, and below every latency target."""

    memory_share: float | None = None
    latency_share: float | None = None


class Said(Record):
    """Facts of deployments whose file or name matches `match` (a glob); `line` of the policy file."""

    match: str
    model: str | None = None
    gpu: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    line: int = 0


class RulePolicy(Record):
    """A rule switched off or on, of another severity, with other numbers."""

    severity: Literal["error", "warning", "note", "off"] | None = None
    parameters: dict[str, Any] = Field({})


class Accepted(Record):
    """Findings that are accepted: of a rule, in files that match, for a reason, until a date (its last day)."""

    rule: str
    match: str = "*"
    reason: str = ""
    until: str | None = None
    line: int = 0
    column: int = 1


class Override(Record):
    """Sections that hold in place of the file's own for deployments whose file or name matches."""

    match: str
    hardware: str | None = None
    workload: Workload = Workload()
    targets: Targets = Targets()
    margins: Margins = Margins()
    rules: dict[str, RulePolicy] = Field({})


class Policy(Record):
    """The whole file; everything in it is optional. `file` is where it was read, "" for none."""

    hardware: str | None = None
    workload: Workload = Workload()
    targets: Targets = Targets()
    margins: Margins = Margins()
    deployments: list[Said] = Field([])
    rules: dict[str, RulePolicy] = Field({})
    overrides: list[Override] = Field([])
    accept: list[Accepted] = Field([])
    file: str = ""

    def of(self, file: str, name: str) -> "Policy":
        """What holds for one deployment."""
        held = self
        for override in self.overrides:
            if self.matches(override.match, file, name):
                held = held.model_copy(update=dict(_laid_over(held, override)))
        workload = held.workload
        if workload.prefix_share is not None and workload.input_tokens is not None:
            shared = round(workload.prefix_share * workload.input_tokens)
            held = held.model_copy(update={"workload": _with(workload, {"shared_prefix_tokens": shared})})
        return held

    def said(self, file: str, name: str) -> dict[str, tuple[str, str]]:
        """Facts of `deployments:` for one deployment: fact -> (value, where it is said); the last that match wins."""
        facts: dict[str, tuple[str, str]] = {}
        for entry in self.deployments:
            if self.matches(entry.match, file, name):
                for fact in ("model", "gpu", "engine", "engine_version"):
                    value = getattr(entry, fact)
                    if value is not None:
                        facts[fact] = (value, f"{self.file or 'policy'}:{entry.line}")
        return facts

    def matches(self, pattern: str, file: str, name: str) -> bool:
        """Whether a glob matches a deployment's name, its file's name, or the file's path.

        The path is tried as it was given and relative to the policy file; `*` stays within a folder, `**` does not.
        """
        glob = _glob(pattern)
        return any(glob.fullmatch(candidate) for candidate in self._called(file, name))

    def _called(self, file: str, name: str) -> Iterator[str]:
        yield name
        plain = os.path.normpath(file).replace(os.sep, "/")
        yield plain
        yield plain.rpartition("/")[2]
        yield relative(file, self.file)


@cache
def relative(file: str, beside: str) -> str:
    """The path of a file as seen from the folder that `beside` lies in, with slashes; - stays -."""
    if file == "-":
        return file
    try:
        return os.path.relpath(file, os.path.dirname(beside) or ".").replace(os.sep, "/")
    except ValueError:  # another drive
        return file.replace(os.sep, "/")


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    """A glob as a pattern: `**/` any folders, `**` anything, `*` and `?` within a folder.

    >>> bool(_glob("prod/**/*.yaml").fullmatch("prod/a/b.yaml")), bool(_glob("prod/*").fullmatch("prod/a/b.yaml"))
    (True, False)
    """
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", re.sub(r"\*{3,}", "**", pattern))
    return re.compile("".join(meaning.get(part) or re.escape(part) for part in parts), re.DOTALL)


def _with(record: Any, fields: dict[str, Any]) -> Any:
    return record.model_copy(update=fields)


def _laid_over(held: Policy, over: Override) -> Iterator[tuple[str, Any]]:
    """The sections of a policy with an override's fields in place of theirs."""
    if over.hardware is not None:
        yield "hardware", over.hardware
    for section in ("workload", "targets", "margins"):
        said = {name: value for name, value in getattr(over, section) if value is not None}
        yield section, _with(getattr(held, section), said)
    rules = dict(held.rules)
    for id, rule in over.rules.items():
        before = rules.get(id, RulePolicy())
        numbers = before.parameters | rule.parameters
        rules[id] = RulePolicy(severity=rule.severity or before.severity, parameters=numbers)
    yield "rules", rules
