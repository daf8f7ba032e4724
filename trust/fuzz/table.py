"""All targets by name."""

from fuzz import gates, measured, models, words
from fuzz.target import Target, every

TARGETS: dict[str, Target] = every(target for module in (models, gates, measured, words) for target in module.targets())
