"""The completion scripts of shells, kept as files in `data/completion`."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "data" / "completion"


def script(shell: str) -> str:
    """The script of one shell."""
    return (FOLDER / f"infopt.{shell}").read_text(encoding="utf-8").removesuffix("\n")
