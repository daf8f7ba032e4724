"""One file per output form. Reports only print."""
