"""Choose the output form of a gate; the module of a form is imported only when it is asked for."""

from infopt.gate.check import Gate
from infopt.reports.gate_words import Strictness


def render_gate(found: Gate, form: str, strictness: Strictness) -> str:
    """The findings in one form."""
    if form == "github":
        from infopt.reports.gate_github import page as github

        return github(found, strictness)
    if form == "junit":
        from infopt.reports.gate_junit import document

        return document(found, strictness)
    if form == "md":
        from infopt.reports.gate_markdown import page as markdown

        return markdown(found)
    if form in ("json", "sarif", "gitlab"):
        from infopt.reports.json_report import dumps

        return dumps(_data(found, form, strictness))
    from infopt.reports.gate_terminal import page

    return page(found)


def _data(found: Gate, form: str, strictness: Strictness) -> object:
    if form == "sarif":
        from infopt.reports.gate_sarif import as_dict as sarif

        return sarif(found)
    if form == "gitlab":
        from infopt.reports.gate_gitlab import as_list

        return as_list(found, strictness)
    from infopt.reports.gate_json import as_dict

    return as_dict(found)
