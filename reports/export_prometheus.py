"""Recording rules and alerts as Prometheus reads them, under a comment that says how they were made."""

import json
from typing import Any

import yaml

from infopt import __version__
from infopt.reports.emit import comment, without_secrets
from infopt.reports.words import assumptions, engine_words, load_words, title
from infopt.studies.export import LABEL, Export
from infopt.studies.export_alerts import Alert

NOW = {
    "s": "{{ $value | humanizeDuration }}",
    "share": "{{ $value | humanizePercentage }}",
    "sequences": "{{ $value | humanize }} sequences",
    "tokens": "{{ $value | humanize }} tokens",
    "per_s": "{{ $value | humanize }}/s",
}


def rules_text(found: Export, command: str, as_json: bool) -> str:
    """The rule file; as JSON, which Prometheus reads as well, the comment goes."""
    if as_json:
        return json.dumps(rules(found), ensure_ascii=False, indent=2) + "\n"
    header = "".join(f"# {comment(line)}\n" for line in said(found, command))
    return header + yaml.safe_dump(rules(found), sort_keys=False, allow_unicode=True, width=1000)


def said(found: Export, command: str) -> list[str]:
    """What a reader of the file must know."""
    return [
        f"Made by infopt {__version__}: what a plan says of {found.metrics.engine}, as rules for Prometheus",
        f"command: {without_secrets(command)}",
        f"plan: {title(found.plan)}; {engine_words(found.plan)}; {load_words(found.plan)}",
        f"metrics: of {found.served}, by the names of {found.metrics.engine}",
        *(f"assumed: {text}" for text in assumptions(found.plan)),
        *(f"note: {note}" for note in found.notes),
        *left_out_words(found),
    ]


def left_out_words(found: Export) -> list[str]:
    """Alerts that are not there, and why."""
    return [f"left out: {one.id}: {one.why}" for one in found.left_out]


def rules(found: Export) -> dict[str, Any]:
    """The file as data: what is recorded, then what is judged."""
    recorded = [
        {"record": figure.name, "expr": figure.query, "labels": {LABEL: found.name}} for figure in found.figures
    ]
    return {
        "groups": [
            {"name": f"infopt records: {found.name}", "rules": recorded},
            {"name": f"infopt alerts: {found.name}", "rules": [_alert(found, alert) for alert in found.alerts]},
        ]
    }


def _alert(found: Export, alert: Alert) -> dict[str, Any]:
    words = alert.words
    now = f": now {NOW[words.unit]}, limit {alert.limit}" if words.unit in NOW else ""
    return {
        "alert": words.alert,
        "expr": alert.expr,
        "for": words.hold,
        "labels": {"severity": words.severity, LABEL: template_text(found.name)},
        "annotations": {
            "summary": f"{template_text(found.served)}: {words.summary}{now}",
            "reason": template_text(f"{alert.reason}; plan of {title(found.plan)}"),
            "runbook": template_text(words.runbook),
        },
    }


def template_text(text: str) -> str:
    """Text that Prometheus' templates leave as it is.

    >>> template_text("a {{b}}")
    'a {{ "{{" }}b}}'
    """
    return text.replace("{{", '{{ "{{" }}')
