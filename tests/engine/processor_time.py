"""Who used the processors while something was timed: the server and this process, or others.

    others = (busy + stolen - ours) / (elapsed x processors)
busy and stolen from /proc/stat; ours: the processes of the server's group, and this one (proc(5)).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of the first line of /proc/stat: time not used, time used by guests (counted before), stolen by the host.
IDLE, IOWAIT, STEAL, COUNTED = 3, 4, 7, 8
# Fields of /proc/PID/stat behind the name in brackets.
GROUP, USER, SYSTEM = 2, 11, 12


@dataclass(frozen=True)
class Used:
    """Ticks so far: in all, busy or stolen, and of ours."""

    all: int
    busy: int
    ours: int

    def others_since(self, before: "Used") -> float:
        """Part of all processors' time that others took since."""
        elapsed = max(1, self.all - before.all)
        return max(0, (self.busy - before.busy) - (self.ours - before.ours)) / elapsed


def used(group: int) -> Used:
    """Now; `group` is the server's process group."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]][:COUNTED]
    own = os.times()
    ours = sum(_ticks(group)) + round((own.user + own.system) * TICKS_PER_S)
    return Used(sum(fields), sum(fields) - fields[IDLE] - fields[IOWAIT], ours)


def _ticks(group: int) -> Iterator[int]:
    """Of each process of a group."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended since
        if int(fields[GROUP]) == group:
            yield int(fields[USER]) + int(fields[SYSTEM])
