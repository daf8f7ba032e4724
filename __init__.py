"""infopt: will it fit, how fast can it be, and which optimization pays."""

__version__ = "0.1.0"
