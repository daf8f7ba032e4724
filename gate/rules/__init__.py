"""One rule a file: id, severity, why, remedy, and what it looks at."""
