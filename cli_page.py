"""`--html FILE` of the commands that answer with a page, too."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infopt.cli_options import PageFile
from infopt.errors import InfoptError

if TYPE_CHECKING:
    from infopt.reports.pages.page import Page

STANDARD_OUTPUT = Path("-")


@dataclass(frozen=True)
class PageOptions:
    """Where the answer is written as a page."""

    html: PageFile = None

    def check(self, *others: tuple[str, Path | None]) -> None:
        """Refuse, before anything is computed, places that cannot be written and files that are named twice.

        others   further files that the command writes, by their options
        Errors: InfoptError.
        """
        files: dict[Path, str] = {}
        for option, path in (*others, ("--html", self.html)):
            if path is None:
                continue
            if path == STANDARD_OUTPUT:
                raise InfoptError(f"{option} -: name a file; /dev/stdout is where the answer itself is printed")
            if not path.parent.is_dir():
                raise InfoptError(f"{option} {path}: there is no folder {path.parent}")
            if path.is_dir():
                raise InfoptError(f"{option} {path}: is a folder: name a file")
            # Devices may be written twice.
            other = files.setdefault(Path(os.path.realpath(path)), option)
            if other != option and (path.is_file() or not path.exists()):
                raise InfoptError(f"{other} and {option} both name {path}: each needs a file of its own")

    def write(self, page: "Callable[[str], Page]") -> None:
        """Write the page that `page` makes of the command line, where one is asked for."""
        if self.html is None:
            return
        from infopt.cli import command
        from infopt.files import write_text
        from infopt.reports.pages.page import page_text

        write_text(self.html, page_text(page(command())))
