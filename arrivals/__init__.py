"""What arrives: requests over time, made from a description or read from a trace file."""
