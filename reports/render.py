"""Choose the output form; the module of a form is imported only when it is asked for."""

from typing import Literal

from infopt.studies.planning import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from infopt.studies.choices import Choices

Form = Literal["table", "json", "csv", "md"]


def render_plan(plan: Plan, form: Form, explain: bool) -> str:
    """One plan in one form."""
    if form == "json":
        from infopt.reports.json_report import dumps, plan_dict

        return dumps(plan_dict(plan, explain))
    if form == "csv":
        from infopt.reports.csv_report import plans_csv

        return plans_csv([plan])
    if form == "md":
        from infopt.reports.markdown import plan_markdown

        return plan_markdown(plan, explain)
    from infopt.reports.table_plan import plan_page

    return plan_page(plan, explain)


def render_choices(choices: "Choices", form: Form, command: str) -> str:
    """The choice of hardware in one form."""
    if form == "json":
        from infopt.reports.json_report import choices_dict, dumps

        return dumps(choices_dict(choices.plans))
    if form == "csv":
        from infopt.reports.csv_report import plans_csv

        return plans_csv(choices.plans)
    if form == "md":
        from infopt.reports.markdown import choices_markdown

        return choices_markdown(choices, command)
    from infopt.reports.table_choices import choices_page

    return choices_page(choices, command)
