"""Controls of a page, which its script shows and reads: without a script there is nothing to control."""

from collections.abc import Sequence
from html import escape

from infopt.reports.pages.blocks import Html


def number_field(name: str, label: str, value: int, fixed: bool = False) -> Html:
    """A whole number, with a slider beside it that moves in even ratios."""
    off, name = " disabled" if fixed else "", escape(name)
    return Html(
        f'<div class="field"><label for="control-{name}">{escape(label)}</label>'
        f'<input type="number" id="control-{name}" name="{name}" min="1" step="1" value="{value}" required{off}>'
        f'<input type="range" data-for="{name}" aria-label="{escape(f"{label}, slider")}" '
        f'min="0" max="1" step="0.25"{off}></div>'
    )


def choice_field(name: str, label: str, values: Sequence[str]) -> Html:
    """One of some values, the first chosen; nothing to choose where there is one."""
    options = "".join(f'<option value="{i}">{escape(text)}</option>' for i, text in enumerate(values))
    off, name = " disabled" if len(values) == 1 else "", escape(name)
    return Html(
        f'<div class="field"><label for="control-{name}">{escape(label)}</label>'
        f'<select id="control-{name}" name="{name}"{off}>{options}</select></div>'
    )


def control_panel(id: str, fields: Sequence[Html], command: str) -> Html:
    """Fields, a way back, what happened, and the command line of it."""
    return Html(
        f'<form class="controls" id="{escape(id)}" hidden><div class="fields">{"".join(fields)}</div>'
        f'<p><button type="reset">Back to the plan</button> <output role="status" id="{escape(id)}-said"></output></p>'
        f'<pre tabindex="0" aria-label="Command line"><code id="{escape(id)}-command">{escape(command)}</code></pre>'
        "</form>"
    )


def of_the_plan(*parts: Html, otherwise: str = "") -> Html:
    """Parts that are true of the plan as asked; while something is changed, `otherwise` is shown in their place."""
    instead = f'<p class="soft" data-of-change hidden>{escape(otherwise)}</p>' if otherwise else ""
    return Html(f"<div data-of-plan>{''.join(parts)}</div>{instead}")


def said(key: str, text: str) -> Html:
    """A text of the result that the script replaces; `key` is its path in `--json`."""
    return Html(f'<span data-text="{escape(key)}">{escape(text)}</span>')


def replaceable(id: str, part: Html) -> Html:
    """A part that the script writes anew."""
    return Html(f'<div id="{escape(id)}">{part}</div>')
