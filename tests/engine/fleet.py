"""Servers of a run by name, started when a test needs them: a wave together, or the few that are looked at again."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.engine.server import EngineServer


class Fleet(Mapping[str, EngineServer]):
    """Servers that were started; asking for another one starts it."""

    def __init__(self, start: Callable[[Sequence[str]], Mapping[str, EngineServer]]) -> None:
        """`start` brings servers to their goals, those it is given together."""
        self._start, self._started = start, dict[str, EngineServer]()

    def need(self, *names: str) -> "Fleet":
        """Start those of them that are not there yet, together: one after the other they would take longer."""
        absent = [name for name in names if name not in self._started]
        if absent:
            self._started.update(self._start(absent))
        return self

    def __getitem__(self, name: str) -> EngineServer:
        return self.need(name)._started[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._started)

    def __len__(self) -> int:
        return len(self._started)

    def stop(self) -> None:
        """End all that were started; twice is once."""
        for server in self._started.values():
            server.stop()
