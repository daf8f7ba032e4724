"""Choose the output form of a gate; the module of a form is imported only when it is asked for."""

from infopt.gate.check import Gate


def render_gate(found: Gate, form: str) -> str:
    """The findings in one form."""
    if form == "json":
        from infopt.reports.gate_json import as_dict
        from infopt.reports.json_report import dumps

        return dumps(as_dict(found))
    from infopt.reports.gate_terminal import page

    return page(found)
