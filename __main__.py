"""`python -m infopt`."""

from infopt.cli import main

if __name__ == "__main__":
    main()
