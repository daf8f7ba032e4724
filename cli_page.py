"""`--html FILE` of the commands that answer with a page, too."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infopt.cli_options import PageFile
from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.reports.pages.page import Page


@dataclass(frozen=True)
class PageOptions:
    """Where the answer is written as a page."""

    html: PageFile = None

    def check(self) -> None:
        """Refuse a place that cannot be written before anything is computed. Errors: InfoptError."""
        if self.html is None:
            return
        if self.html.is_dir():
            raise InfoptError(f"--html {self.html}: is a folder: name a file")
        if not self.html.parent.is_dir():
            raise InfoptError(f"--html {self.html}: there is no folder {self.html.parent}")

    def write(self, page: "Callable[[str], Page]") -> None:
        """Write the page that `page` makes of the command line, where one is asked for."""
        if self.html is None:
            return
        from infopt.cli import command
        from infopt.files import write_text
        from infopt.reports.pages.page import page_text

        write_text(self.html, page_text(page(command())))
