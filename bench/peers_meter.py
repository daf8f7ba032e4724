"""Runs one command and writes what it took: `python -I -S peers_meter.py RESULT COMMAND...`.

A program of its own because Linux keeps the peak memory of the process that forked across exec: what is measured here
begins with the few megabytes of this script, and not with those of the benchmark. It imports as little as it can.
A command that runs longer than LONGEST_S is killed.
"""

import os
import signal
import sys
import time

LONGEST_S = 300


def main() -> None:
    result, command = sys.argv[1], sys.argv[2:]
    signal.alarm(LONGEST_S)
    started = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    _, status, usage = os.wait4(child, 0)
    wall_s = time.perf_counter() - started
    cpu_s, peak_bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    with open(result, "w", encoding="utf-8") as file:
        file.write(f"{wall_s} {cpu_s} {peak_bytes} {os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    main()
