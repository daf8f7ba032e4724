"""The memory of one device as a chart: every term on the ones before it, up to what the device has."""

from infopt.ledgers.memory import MemoryLedger, Piece
from infopt.reports import words
from infopt.reports.pages.charts import Axis, Chart, Line, Role, Series
from infopt.units import format_gib

DESCRIPTION = "What stands on what. Free memory is left of the limit; what is missing lies beyond it."
# Pieces by what they mean; every other one is a term of the ledger.
ROLES: dict[str, Role] = {"free": "good", "missing": "bad"}


def memory_chart(memory: MemoryLedger, id: str = "memory", title: str = "Memory of one device") -> Chart:
    """The waterfall."""
    pieces = memory.pieces
    names = tuple(words.term_name(piece.name) for piece in pieces)
    kinds: dict[Role, list[Piece]] = {}
    for piece in pieces:
        kinds.setdefault(ROLES.get(piece.name, "estimate"), []).append(piece)
    series = tuple(
        Series(
            "in use" if role == "estimate" else members[0].name,
            role,
            "part",
            [(words.term_name(one.name), one.start_bytes, one.end_bytes) for one in members],
        )
        for role, members in kinds.items()
    )
    capacity = float(memory.capacity_bytes_per_gpu)
    return Chart(
        id,
        "waterfall",
        title,
        DESCRIPTION,
        Axis("term", "count", "category", names),
        Axis("memory", "bytes"),
        series,
        (Line("y", capacity, f"usable {format_gib(capacity)}", "limit"),),
    )
