"""Plans as CSV: one header line, one row per plan, columns named after the JSON contract (`memory.kv_share`)."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from infopt.reports.json_report import COST_KEYS, ENERGY_KEYS, plan_dict
from infopt.studies.cost import Month, NoMonth
from infopt.studies.planning import Plan


def plans_csv(plans: Sequence[Plan], ranked: bool = False, month: Month | NoMonth | None = None) -> str:
    """The rows; lists become texts joined by "; ", unknown values are empty; sources are left to JSON."""
    rows = []
    for rank, plan in enumerate(plans, start=1):
        data = plan_dict(plan, month=month)
        del data["sources"]
        for section, keys in (("cost", COST_KEYS), ("energy", ENERGY_KEYS)):
            data[section] = data[section] or dict.fromkeys(keys)
        row = dict(flattened(data))
        rows.append({"rank": rank, **row} if ranked else row)
    return rows_csv(rows)


def rows_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows under the union of their columns, in order of appearance."""
    columns = dict.fromkeys(column for row in rows for column in row)
    text = StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({column: cell(value) for column, value in row.items()} for row in rows)
    return text.getvalue().removesuffix("\n")


def flattened(data: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Leaves of nested objects with dotted names."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flattened(value, f"{name}.")
        elif isinstance(value, list):
            yield name, "; ".join(_item(item) for item in value)
        else:
            yield name, value


def _item(value: Any) -> str:
    return str(value["text"]) if isinstance(value, Mapping) and "text" in value else str(value)


def cell(value: Any) -> Any:
    """Truth values as JSON spells them, whole numbers without a point."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
