"""What the functions of the Python API return: the object of `--json`, and the pages that show it."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infopt.errors import nearest

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Figures(Mapping[str, Any]):
    """An object of `--json`, by key and by attribute: `plan["memory"]["fits"]` is `plan.memory.fits`."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def __getitem__(self, key: str) -> Any:
        return _shown(self._data[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what copying and pickling look for before there are data
            raise AttributeError(name)
        if name not in self._data:
            close = nearest(name, self._data)
            raise AttributeError(f"there is no {name!r} here; nearest: {', '.join(close or self._data)}")
        return self[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._data})

    def __repr__(self) -> str:
        return repr(self._data)

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain dictionaries, lists, numbers and texts."""
        copied: dict[str, Any] = json.loads(json.dumps(self._data))
        return copied


class Answer(Figures):
    """The answer of a command; what it prints is made when it is asked for.

    `render` gives the answer in the form named: table, json, csv or md. `exit_status` is that of the command line:
    0 good, 1 does not fit, fails or misses a target, 2 a file could not be read, 3 nothing to check, 4 undetermined.
    """

    def __init__(self, render: Callable[..., str], exit_status: int) -> None:
        self._render = render
        self._json = render(form="json")
        self.exit_status = exit_status
        super().__init__(json.loads(self._json))

    def to_json(self) -> str:
        """The text that `--json` prints."""
        return self._json

    def text(self, form: str = "table") -> str:
        """The page in one form, without colour."""
        return COLOUR.sub("", self._render(form=form))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from infopt.reports.notebook import notebook_html

        return notebook_html(self.text("md"))


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return Figures(value)
    return [_shown(one) for one in value] if isinstance(value, list) else value
