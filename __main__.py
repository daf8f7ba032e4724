"""What `infopt` and `python -m infopt` run."""

import gc

# Modules and records live to the end of a run, so looking for garbage while they load finds none and takes a twentieth
# of the start. Long commands are still collected, just less often.
ALLOCATIONS_BEFORE_COLLECTING = 100_000


def main() -> None:
    gc.set_threshold(ALLOCATIONS_BEFORE_COLLECTING)
    from infopt.cli import main as run

    run()


if __name__ == "__main__":
    main()
