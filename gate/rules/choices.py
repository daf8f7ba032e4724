"""Values that are not among those an option takes in this version."""

from collections.abc import Iterator

from infopt.gate.arguments import tabled
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.profiles.flag_tables import lookup

# Another rule's: its list depends on more than the version.
ELSEWHERE = frozenset({"kv"})
# Programs hand arguments to the engine past its parser, which alone knows the list.
PAST_THE_PARSER = "Ray Serve"


def check(case: Case) -> Iterator[Hit]:
    """Every setting whose option has a list of values in this version."""
    deployment = case.deployment
    if deployment.engine not in tabled() or deployment.version is None:
        return
    parsed = not deployment.found.form.startswith(PAST_THE_PARSER)
    for name, setting in deployment.settings.items():
        if setting.argument is None or name in ELSEWHERE or not isinstance(setting.value, str | int):
            continue
        if isinstance(setting.value, bool):
            continue
        answer = lookup(deployment.engine, deployment.version, setting.flag)
        choices = answer.flag.choices if answer.flag is not None and "choices" not in answer.uncertain else ()
        if choices and str(setting.value) not in choices:
            listed = ", ".join(sorted(choices, key=lambda choice: (len(choice), choice)))
            yield Hit(
                f"{setting.flag} {setting.value} is not among the values of {deployment.engine} {deployment.version}",
                detail=f"its values: {listed}",
                at=setting.argument,
                severity=None if parsed else "warning",
                confidence="certain" if parsed else "likely",
            )


RULE = Rule(
    id="choices",
    summary="an option has a value this version does not know",
    severity="error",
    why="The engine prints its usage and exits; built by a program, it may start with a value nobody tested.",
    remedy="One of the values listed.",
    check=check,
)
