"""What `infopt` and `python -m infopt` run."""

import gc
import os
import signal
import sys
from typing import Any

# Modules and records live to the end of a run, so looking for garbage while they load finds none and takes a twentieth
# of the start. Long commands are still collected, just less often.
ALLOCATIONS_BEFORE_COLLECTING = 100_000
# Set by the completion script of a shell: the line that is typed.
COMPLETING = "_INFOPT_COMPLETE"
INTERRUPTED = 130  # of cli.py, which may be what is being imported


def main() -> None:
    """Run the command line; SIGTERM and SIGHUP unwind it as Ctrl-C does, and then it dies of them, as is expected."""
    gc.set_threshold(ALLOCATIONS_BEFORE_COLLECTING)
    ended_by: list[int] = []

    def end(number: int, frame: Any) -> None:
        if not ended_by:  # some send it twice: to the process, and to its group
            ended_by.append(number)
            raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it
            signal.signal(number, end)
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if ended_by:
            signal.signal(ended_by[0], signal.SIG_DFL)
            os.kill(os.getpid(), ended_by[0])


def _run() -> None:
    if COMPLETING in os.environ:
        from infopt.cli_completion import complete

        complete(os.environ[COMPLETING])
        return
    from infopt.cli import main as run

    run()


if __name__ == "__main__":
    main()
