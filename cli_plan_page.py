"""`plan --html`: the page of a plan with its what-if, or of the choice of hardware."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from infopt.cli_options import LadderOptions, MonthOptions, ScenarioOptions, without_options
from infopt.cli_page import PageOptions

if TYPE_CHECKING:
    from infopt.reports.pages.page import Page
    from infopt.reports.pages.plan_whatif import Typed
    from infopt.studies.choices import Choices
    from infopt.studies.planning import Plan

# Options that the controls of the page stand for, and the page itself.
CONTROLLED = {
    *("--hw", "--gpus", "--tp", "--ep", "--weights", "--kv", "--ctx", "--context", "--max-model-len", "--isl", "--osl"),
    *("--batch", "--html", "--tpot"),
}


def write_choices(file: Path, choices: "Choices") -> None:
    """The page of the choice of hardware."""
    from infopt.cli import next_command
    from infopt.reports.pages.choices_page import choices_page

    def made(command: str) -> "Page":
        line = shlex.join(without_options(shlex.split(command), {"--html"}))
        return choices_page(choices, command, next_command(choices.plans, line))

    PageOptions(file).write(made)


def write_plan(
    file: Path,
    plan: "Plan",
    scenario: ScenarioOptions,
    ladder: LadderOptions,
    monthly: MonthOptions,
    explain: bool,
    is_observed: bool,
) -> None:
    """The page of a plan; what was observed holds for one load, so that has no what-if."""
    from infopt.reports.pages.plan_page import plan_page

    target_s, month = ladder.target_s(), monthly.month(plan)
    if is_observed:
        PageOptions(file).write(lambda command: plan_page(plan, command, None, target_s, explain, month))
        return
    from infopt.profiles.resolve import resolve_model
    from infopt.reports.pages.plan_whatif import Asked
    from infopt.studies.whatif import what_if

    # The model as it is, not with the plan's format put into it: neighbours choose theirs.
    model = resolve_model(scenario.model, online=scenario.online)
    # A calibration may be of other hardware than the common ones, which then have the shipped figures.
    others = replace(scenario, calibration=None).common_hardware()
    found = what_if(model, scenario.hardware(), scenario.request(), others)
    PageOptions(file).write(
        lambda command: plan_page(plan, command, Asked(found, typed(command, scenario)), target_s, explain, month)
    )


def typed(command: str, scenario: ScenarioOptions) -> "Typed":
    """The words of the command line that stay, and those of hardware and placement."""
    from infopt.reports.pages.plan_whatif import Typed

    given = (("--hw", scenario.hw), ("--gpus", scenario.gpus), ("--tp", scenario.tp), ("--ep", scenario.ep))
    placed = [word for option, value in given if value is not None for word in (option, str(value))]
    return Typed(tuple(without_options(shlex.split(command), CONTROLLED)), tuple(placed), scenario.ep is not None)
