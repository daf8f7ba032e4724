"""Answers as pages for a browser: one file each, no network, charts and data inside."""
