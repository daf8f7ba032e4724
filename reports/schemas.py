"""JSON Schemas (draft 2020-12) of what commands print with --json, kept as files in `data/schemas`."""

from pathlib import Path

from infopt.errors import unknown_name

FOLDER = Path(__file__).resolve().parent / "data" / "schemas"
ENDING = ".json"


def schema_names() -> list[str]:
    """The outputs that have a schema."""
    return sorted(path.name.removesuffix(ENDING) for path in FOLDER.glob(f"*{ENDING}"))


def schema_text(name: str) -> str:
    """The schema of one output; an unknown name lists the nearest."""
    if name not in schema_names():
        raise unknown_name("schema", name, schema_names(), f"there are {', '.join(schema_names())}")
    return (FOLDER / f"{name}{ENDING}").read_text(encoding="utf-8").removesuffix("\n")
