"""The arithmetic: pure functions from a scenario to named terms."""
