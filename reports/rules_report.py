"""The rule catalogue: a list, one rule in full, JSON, Markdown."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from infopt.gate.finding import Rule
from infopt.reports.markdown import escape, table
from infopt.reports.screen import terminal_width

SCHEMA = "infopt/rules/1"


def render_rules(rules: Sequence[Rule], form: str, full: bool) -> str:
    """The rules in one form; `full` is one rule with all that is said of it."""
    if form == "json":
        from infopt.reports.json_report import dumps

        return dumps(as_dict(rules))
    if form == "md":
        return "\n\n".join(map(rule_markdown, rules)) if full else list_markdown(rules)
    lines = _rule_lines(rules[0]) if full else _list_lines(rules)
    return "\n".join(lines)


def as_dict(rules: Sequence[Rule]) -> dict[str, Any]:
    """The catalogue, in the order the gate takes it."""
    return {"schema": SCHEMA, "rules": [rule_dict(rule) for rule in rules]}


def rule_dict(rule: Rule) -> dict[str, Any]:
    """One rule; a parameter that stands for nothing is null."""
    return {
        "id": rule.id,
        "severity": rule.severity,
        "summary": rule.summary,
        "why": rule.why,
        "remedy": rule.remedy,
        "parameters": dict(rule.parameters),
        "source": rule.source or None,
    }


def _list_lines(rules: Sequence[Rule]) -> Iterator[str]:
    """Id, severity and summary, in columns where there is room."""
    width = terminal_width()
    longest = max(len(rule.id) for rule in rules)
    for rule in rules:
        head = f"{rule.id:<{longest}}  {rule.severity:<7}  "
        if len(head) + 24 <= width:
            yield from textwrap.wrap(
                head + rule.summary, width, subsequent_indent=" " * len(head), break_on_hyphens=False
            )
        else:
            yield f"{rule.id} ({rule.severity})"
            yield from textwrap.wrap(rule.summary, width, initial_indent="  ", subsequent_indent="  ")
    yield ""
    yield from textwrap.wrap(f"{len(rules)} rules; `infopt rules ID` says why and what to do.", width)


def _rule_lines(rule: Rule) -> Iterator[str]:
    width = terminal_width()
    yield f"{rule.id} ({rule.severity})"
    sections = [("finds", rule.summary), ("why", rule.why), ("remedy", rule.remedy)]
    sections += [("parameter", f"{name}: {value}") for name, value in rule.parameters.items()]
    sections += [("source", rule.source)] if rule.source else []
    for name, text in sections:
        yield from textwrap.wrap(
            text,
            width,
            initial_indent=f"  {name:<9}  ",
            subsequent_indent=" " * 13,
            break_long_words=False,
            break_on_hyphens=False,
        )


def list_markdown(rules: Sequence[Rule]) -> str:
    """A table of the rules."""
    rows = ((rule.id, rule.severity, rule.summary) for rule in rules)
    return "\n".join(table(("rule", "severity", "finds"), rows, "lll"))


def rule_markdown(rule: Rule) -> str:
    """One rule as a page."""
    parts = [f"# {rule.id}", f"{sentence(rule.summary)} Severity: {rule.severity}."]
    parts += [f"**Why.** {escape(rule.why)}", f"**Remedy.** {escape(rule.remedy)}"]
    if rule.parameters:
        rows = ((f"`{name}`", str(value)) for name, value in rule.parameters.items())
        parts.append("\n".join(table(("parameter", "default"), rows, "ll")))
    if rule.source:
        parts.append(f"Source: {escape(rule.source)}")
    return "\n\n".join(parts)


def sentence(text: str) -> str:
    """A summary as a sentence."""
    return escape(f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}")
