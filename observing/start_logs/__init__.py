"""Start-up logs of engines, read into what they say of memory: one file an engine."""
