"""What goes wrong after a result is there: it is said, and the result is printed all the same."""

from dataclasses import replace
from typing import TYPE_CHECKING

from infopt.cli import tell
from infopt.errors import InfoptError, one_line

if TYPE_CHECKING:
    from infopt.reports.observe_report import Added


class Troubles:
    """What went wrong after the observation: it takes nothing from what was seen, and JSON stays one document."""

    def __init__(self) -> None:
        self.found: list[InfoptError] = []

    def __enter__(self) -> None:
        """Errors of the block are kept."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, InfoptError):
            self.found.append(error)
        return isinstance(error, InfoptError)

    def in_json(self, added: "Added") -> "Added":
        """The first of them beside what was added."""
        from infopt.reports.json_report import error_dict

        if not self.found:
            return added
        first = self.found[0]
        return replace(added, data={**added.data, **error_dict(one_line(str(first)), first.exit_status)})

    def told(self, exit_status: int) -> int:
        """The exit status: that of the first, where there is one; each has its line."""
        tell(one_line(str(error)) for error in self.found)
        return self.found[0].exit_status if self.found else exit_status
