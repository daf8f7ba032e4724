"""Programs of what-if in a browser: the answers of plans, as tests/test_whatif.py asks of them in Python."""

import json
import sys
from pathlib import Path
from typing import Any

from browser.conftest import OpenPage
from whatif_answers import MOST_DIFFERENCE, differences, expected_answers
from whatif_scenarios import SCENARIOS, Asked, thousand

from infopt.reports.pages.page import DATA
from infopt.reports.pages.programs import programs_data
from infopt.studies.whatif_trace import given_lengths, traced_lengths


def test_a_thousand_programs_answer_in_the_browser_as_plans_do(
    open_page: OpenPage, tmp_path: Path, capsys: Any
) -> None:
    blank = tmp_path / "blank.html"
    blank.write_text("<!doctype html><title>programs</title>", encoding="utf-8")
    page = open_page(blank)
    page.add_script_tag(content=(DATA / "program.js").read_text(encoding="utf-8"))
    groups: dict[tuple[str, ...], list[Asked]] = {}
    for asked in thousand():
        groups.setdefault(given_lengths(asked.request), []).append(asked)
    worst, wrong = 0.0, []
    for names, group in groups.items():
        data = programs_data([asked.traced for asked in group], traced_lengths(names))
        answers = json.loads(page.evaluate(RUN_ALL, json.dumps([data, [asked.load for asked in group]])))
        for asked, found in zip(group, answers, strict=True):
            numbers = {name: None if value is None else float(value) for name, value in found.items()}
            most, differing = differences(expected_answers(asked.plan), numbers, asked.traced)
            worst = max(worst, most)
            wrong += [f"{asked.model.id}, {asked.load}: {one}" for one in differing]
    with capsys.disabled():
        said = f"{SCENARIOS} scenarios in the browser, largest relative difference {worst:.3g}"
        sys.stdout.write(f"\nwhat-if: {said}\n")
    assert not wrong, wrong[:5]
    assert worst <= MOST_DIFFERENCE


# As one text both ways: Playwright takes long for many values. A number that JSON lacks goes by its name.
RUN_ALL = """(text) => {
  const [data, loads] = JSON.parse(text), lengths = infoptProgram.lengths(data);
  const answers = loads.map((given, i) => {
    const get = lengths.run(given), place = infoptProgram.placed(data, i);
    place.run(Object.fromEntries(data.load.map((name) => [name, get(name)])));
    return Object.fromEntries(place.names.map((name) => [name, place.get(name)]));
  });
  const named = (value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value);
  return JSON.stringify(answers, (_, value) => named(value));
}"""
