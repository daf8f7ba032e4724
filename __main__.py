"""What `infopt` and `python -m infopt` run."""

import gc
import os

# Modules and records live to the end of a run, so looking for garbage while they load finds none and takes a twentieth
# of the start. Long commands are still collected, just less often.
ALLOCATIONS_BEFORE_COLLECTING = 100_000
# Set by the completion script of a shell: the line that is typed.
COMPLETING = "_INFOPT_COMPLETE"


def main() -> None:
    gc.set_threshold(ALLOCATIONS_BEFORE_COLLECTING)
    if COMPLETING in os.environ:
        from infopt.cli_completion import complete

        complete(os.environ[COMPLETING])
        return
    from infopt.cli import main as run

    run()


if __name__ == "__main__":
    main()
