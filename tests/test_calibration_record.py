"""Calibration records as files: what is written is read back, and nothing else is believed."""

import json
import math
import string
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from calibrations import acceptance, calibration, device, measurement, step, written
from hypothesis import given
from hypothesis import strategies as st

from infopt.errors import InfoptError
from infopt.hardware.calibration import (
    Calibration,
    State,
    calibration_folder,
    calibration_text,
    checksum,
    load_calibration,
    stored_calibrations,
)
from infopt.reports.schemas import schema_text

FULL = calibration(measurement(), measurement("copy", 5.1e12, contended=True), step(), acceptance())
FINITE = st.floats(1e-12, 1e24)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cf")), max_size=20)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    read = load_calibration(written(tmp_path / "h200.yaml", FULL))
    assert read.plain() == FULL.plain()
    assert read.checksum == checksum(FULL.plain())


@given(value=FINITE, name=TEXT, note=TEXT, conditions=st.dictionaries(TEXT, st.none() | st.booleans() | st.integers()))
def test_any_figure_survives_the_file(
    tmp_path_factory: pytest.TempPathFactory, value: float, name: str, note: str, conditions: dict[str, Any]
) -> None:
    record = calibration(measurement(name, value, p10=value, p90=value, conditions=conditions), software={"note": note})
    path = written(tmp_path_factory.mktemp("records") / "any.yaml", record)
    assert load_calibration(path).plain() == record.plain()


@given(data=st.data())
def test_one_digit_changed_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whichever digit it is: in a figure, a date, the checksum itself."""
    text = calibration_text(FULL)
    places = [i for i, character in enumerate(text) if character in string.digits]
    place = data.draw(st.sampled_from(places))
    digit = data.draw(st.sampled_from([d for d in string.digits if d != text[place]]))
    path = tmp_path_factory.mktemp("edited") / "edited.yaml"
    path.write_text(text[:place] + digit + text[place + 1 :], encoding="utf-8")
    if yaml.safe_load(path.read_text(encoding="utf-8")) == yaml.safe_load(text):
        return  # a digit past those a float keeps changes nothing
    with pytest.raises(InfoptError):
        load_calibration(path)


@given(
    st.dictionaries(TEXT, st.recursive(st.none() | st.booleans() | st.integers() | FINITE | TEXT, st.lists), max_size=8)
)
def test_the_checksum_is_of_the_content_not_of_the_order(plain: dict[str, Any]) -> None:
    assert checksum(plain) == checksum(dict(reversed(plain.items())))
    assert checksum(plain) != checksum({**plain, "one more": 1})
    assert checksum(plain) == checksum(json.loads(json.dumps(plain)))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_figures_are_numbers(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        calibration_text(calibration(measurement(value=value, p10=1.0, p90=1.0)))


@pytest.mark.parametrize("word", [".nan", ".inf", "-.inf"])
def test_a_figure_that_is_no_number_is_refused(tmp_path: Path, word: str) -> None:
    path = written(tmp_path / "h200.yaml", FULL)
    lines = path.read_text(encoding="utf-8").replace("value: 4200000000000.0", f"value: {word}")
    path.write_text(lines, encoding="utf-8")
    assert word in lines
    with pytest.raises(InfoptError, match="checksum does not match"):
        load_calibration(path)


def test_a_record_without_its_checksum_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "h200.yaml", FULL)
    path.write_text(path.read_text(encoding="utf-8").partition("\n")[2], encoding="utf-8")
    with pytest.raises(InfoptError, match="checksum does not match"):
        load_calibration(path)


def test_an_edited_figure_is_named_as_such(tmp_path: Path) -> None:
    path = written(tmp_path / "h200.yaml", FULL)
    path.write_text(path.read_text(encoding="utf-8").replace("NVIDIA H200", "NVIDIA H100"), encoding="utf-8")
    with pytest.raises(InfoptError, match="checksum does not match: it was edited or cut short"):
        load_calibration(path)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (calibration(measurement(value=-1.0, p10=1.0, p90=1.0)), "measurements.0.value is -1.0, which no probe writes"),
        (calibration(measurement(value=1e-300)), "measurements.0.value is 1e-300, which"),
        (calibration(measurement(value=1e300)), "measurements.0.value is 1e.300, which"),
        (calibration(step(), step(batch=0)), "steps.1.batch is 0, which"),
        (calibration(step(context_tokens=-4)), "steps.0.context_tokens is -4, which"),
        (calibration(step(0.0)), "steps.0.median_s is 0.0, which"),
        (calibration(acceptance(per_position=[0.5, -0.5])), r"per_position is \[0.5, -0.5\], which"),
        (calibration(device=device(memory_bytes=-1)), "device.memory_bytes is -1, which"),
        (calibration(device=device(name="H200 \x1b]0;x\x07")), "it holds control characters, which"),
        (calibration(step(model="\u202e8b")), "it holds control characters, which"),
    ],
    ids=["negative", "tiny", "huge", "batch", "context", "no-time", "share", "memory", "escape", "direction"],
)
def test_what_nobody_measured_is_refused_whatever_its_checksum(tmp_path: Path, record: Calibration, words: str) -> None:
    with pytest.raises(InfoptError, match=words) as caught:
        load_calibration(written(tmp_path / "forged.yaml", record))
    assert str(caught.value).isprintable()


def test_lines_and_tabs_in_a_note_are_no_reason_to_refuse_a_record(tmp_path: Path) -> None:
    record = calibration(state=State(notes=["two\nlines\tand a tab"]))
    assert load_calibration(written(tmp_path / "h200.yaml", record)).state.notes == record.state.notes


def test_a_link_that_leads_nowhere_hides_no_other_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFOPT_DATA", str(tmp_path))
    good = written(tmp_path / "calibrations" / "good.yaml", FULL)
    (tmp_path / "calibrations" / "lost.yaml").symlink_to(tmp_path / "gone")
    assert good in stored_calibrations()


def test_another_method_is_refused_by_its_number(tmp_path: Path) -> None:
    path = written(tmp_path / "old.yaml", calibration(method=0))
    with pytest.raises(InfoptError, match="taken by method 0, this infopt reads method 1; measure again: infopt probe"):
        load_calibration(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a calibration"),
        ("a: [1", "not readable as YAML"),
        ("schema: infopt/plan/1", "not a calibration"),
        ("schema: infopt/calibration/1", "method: Field required"),
        (calibration_text(FULL)[:-200], "."),
        (calibration_text(FULL).replace("n_clean: 30", "n_clean: thirty"), "n_clean"),
    ],
    ids=["empty", "no-yaml", "another", "too-little", "cut", "no-number"],
)
def test_what_is_no_record_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InfoptError, match=words) as caught:
        load_calibration(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InfoptError, match="cannot be read"):
        load_calibration(tmp_path / "none.yaml")


@pytest.mark.parametrize("record", [FULL, calibration(), calibration(device=device(accelerator=None, uuid_hash=None))])
def test_the_published_schema_holds_for_real_records(record: Calibration) -> None:
    schema = json.loads(schema_text("calibration"))
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(record.plain())
    validator.validate(yaml.safe_load(calibration_text(record)))
    assert not validator.is_valid(record.plain() | {"surprise": 1})
    assert not validator.is_valid({k: v for k, v in record.plain().items() if k != "device"})


def test_the_published_schema_is_that_of_the_code() -> None:
    """Refreshed by `python tools/record_schemas.py`."""
    published = json.loads(schema_text("calibration"))
    for name, definition in Calibration.model_json_schema(by_alias=True)["$defs"].items():
        assert set(published["$defs"][name]["properties"]) == set(definition["properties"])
        assert published["$defs"][name].get("required") == definition.get("required")
        assert published["$defs"][name].get("description") == definition.get("description"), name


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFOPT_DATA", str(tmp_path / "own"))
    assert calibration_folder() == tmp_path / "own" / "calibrations"
    monkeypatch.delenv("INFOPT_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert calibration_folder() == tmp_path / "data" / "infopt" / "calibrations"
    assert [path for path in stored_calibrations() if tmp_path in path.parents] == []
