"""What a running engine does: its metrics, its benchmark results and its start-up log, read into records."""
