"""infopt: will it fit, how fast can it be, and which optimization pays."""

__version__ = "0.1.0"
__all__ = ["Answer", "InfoptError", "boundary", "gate_files", "gate_text", "plan", "search", "simulate"]


def __getattr__(name: str) -> object:
    """The Python API (api.py), loaded where one of its names is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from infopt import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
