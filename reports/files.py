"""Texts of files that reports write."""

from collections.abc import Mapping
from typing import Any

import yaml


def yaml_text(record: Mapping[str, Any]) -> str:
    """A record as the catalogue's files are written."""
    return yaml.safe_dump(dict(record), sort_keys=False, allow_unicode=True, width=120)
