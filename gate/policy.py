"""`infopt.yaml`: what a repository says of its deployments, its load, its targets, and of the rules."""

from typing import Any, Literal

from pydantic import Field

from infopt.records import Record


class Workload(Record):
    """What arrives; None where it is not known."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    rate_per_s: float | None = None
    concurrency: int | None = None
    shared_prefix_tokens: int | None = None


class Targets(Record):
    """What users were promised, and what it may cost."""

    tpot_s: float | None = None
    ttft_s: float | None = None
    start_s: float | None = None
    usd_per_million_output_tokens: float | None = None


class Said(Record):
    """Facts of deployments whose file or name matches `match` (a glob)."""

    match: str
    model: str | None = None
    gpu: str | None = None
    engine: str | None = None
    engine_version: str | None = None


class RulePolicy(Record):
    """A rule switched off or on, of another severity, with other numbers."""

    severity: Literal["error", "warning", "note", "off"] | None = None
    parameters: dict[str, Any] = Field({})


class Accepted(Record):
    """Findings that are accepted: of a rule, in files that match, for a reason, until a date."""

    rule: str
    match: str = "*"
    reason: str
    until: str | None = None


class Policy(Record):
    """The whole file; everything in it is optional."""

    hardware: str | None = None
    workload: Workload = Workload()
    targets: Targets = Targets()
    deployments: list[Said] = Field([])
    rules: dict[str, RulePolicy] = Field({})
    accept: list[Accepted] = Field([])
