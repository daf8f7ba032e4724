"""Values that this version reads as JSON and that are none."""

import json
from collections.abc import Iterator

from infopt.gate.arguments import tabled
from infopt.gate.case import Case
from infopt.gate.finding import Hit, Rule
from infopt.profiles.flag_tables import lookup
from infopt.units import whole_of


def check(case: Case) -> Iterator[Hit]:
    """Every setting whose option is JSON in this version but whose value is not."""
    deployment = case.deployment
    if deployment.engine not in tabled() or deployment.version is None:
        return
    for setting in deployment.settings.values():
        if setting.argument is None or not isinstance(setting.value, str) or "$" in setting.value:
            continue
        answer = lookup(deployment.engine, deployment.version, setting.flag)
        if answer.flag is None or answer.flag.type != "json" or "type" in answer.uncertain or _is_json(setting.value):
            continue
        yield Hit(
            f"{setting.flag} {setting.value} is not JSON, which {deployment.engine} {deployment.version} reads there",
            at=setting.argument,
            remedy=_as_json(setting.flag, setting.value),
            confidence="likely",
        )


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def _as_json(flag: str, value: str) -> str:
    """The older form of pairs in JSON: image=1,video=2."""
    pairs = [pair.partition("=") for pair in value.split(",")]
    if not all(name and equals for name, equals, _ in pairs):
        return ""
    wholes = ((name.strip(), said.strip(), whole_of(said)) for name, _, said in pairs)
    written = {name: said if number is None else number for name, said, number in wholes}
    return f"{flag} '{json.dumps(written)}'"


RULE = Rule(
    id="json-values",
    summary="an option that is JSON has a value of the older form",
    severity="warning",
    why="Older releases read name=value there; later ones stop with a usage error.",
    remedy="Write the value as JSON.",
    check=check,
    source="flag tables of the releases: text up to 0.6.6, JSON from 0.8.5 on",
)
