"""Reading one YAML record: strict, bounded, and one line of error that names the file and the field."""

from pathlib import Path

import pytest

from infopt.errors import InfoptError
from infopt.records import MAX_YAML_BYTES, Record, load_record, read_yaml, validate_record


class Box(Record):
    name: str
    size_bytes: int
    rate_bytes_per_s: float = 1.0


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "box.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def alias_bomb() -> str:
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [
        f"{name}: &{name} [{', '.join(['*' + below] * 10)}]" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    return "\n".join(lines)


def test_a_record_reads(tmp_path: Path) -> None:
    written(tmp_path, "name: a & b * c\nsize_bytes: 3\nrate_bytes_per_s: 3.35e+12\n")
    box = load_record(Box, tmp_path, "box", "box", "list them")
    assert (box.name, box.size_bytes, box.rate_bytes_per_s) == ("a & b * c", 3, 3.35e12)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (alias_bomb(), "alias *a is not allowed"),
        ("a: &x 1\nb: *x\n", ":2:4: not readable as YAML: alias *x is not allowed"),
        ("a: &x {b: *x}\n", "alias *x is not allowed"),
        ("a: [1, 2\n", "not readable as YAML"),
        ("[" * 100_000, "nesting"),
        ("- " * 100_000, "nesting"),
        ("a: 1\n---\nb: 2\n", "not readable as YAML"),
        ("a: !!python/object/apply:os.system ['true']\n", "not readable as YAML"),
        ("a: \x00\n", "control characters are not allowed"),
        ("a: 2026-13-01\n", "month must be in 1..12"),
        ("a: 2026-02-30 10:00:00\n", "day is out of range for month"),
        ("a: " + 5000 * "9" + "\n", "4300 digits"),
    ],
    ids=[
        "bomb",
        "alias",
        "cycle",
        "unclosed",
        "flow-depth",
        "block-depth",
        "documents",
        "object",
        "control",
        "month",
        "day",
        "digits",
    ],
)
def test_hostile_yaml_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InfoptError) as caught:
        read_yaml(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert why in message
    assert message.isprintable()


def test_an_oversized_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_YAML_BYTES + 1)
    with pytest.raises(InfoptError, match="more than"):
        read_yaml(path)


def test_a_missing_file_and_bytes_that_are_not_text_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InfoptError, match="cannot be read"):
        read_yaml(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InfoptError, match="cannot be read"):
        read_yaml(tmp_path / "binary.yaml")


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"name": "a", "size_bytes": "3"}, "size_bytes"),
        ({"name": "a", "size_bytes": True}, "size_bytes"),
        ({"name": "a", "size_bytes": 3, "rate_bytes_per_s": "3.35e12"}, "rate_bytes_per_s"),
        ({"name": False, "size_bytes": 3}, "name"),
        ({"name": "a"}, "size_bytes"),
        ({"name": "a", "size_bytes": 3, "bandwith": 1}, "bandwith"),
        (None, "the record"),
    ],
    ids=str,
)
def test_the_field_at_fault_is_named(data: object, field: str) -> None:
    with pytest.raises(InfoptError, match=f"^here: {field}: "):
        validate_record(Box, data, "here")


@pytest.mark.parametrize("name", ["bax", "../box", "/box", ""])
def test_an_unknown_name_is_refused(tmp_path: Path, name: str) -> None:
    written(tmp_path, "name: a\nsize_bytes: 3\n")
    with pytest.raises(InfoptError, match="unknown box"):
        load_record(Box, tmp_path / ".", name, "box", "list them")
