"""infopt: will it fit, how fast can it be, and which optimization pays."""

__version__ = "0.1.0"
# The Python API: each name and the module it is in, which is loaded where the name is asked for.
_HOMES = {
    "Answer": "answer",
    "InfoptError": "errors",
    "boundary": "api",
    "gate_files": "api",
    "gate_text": "api",
    "plan": "api",
    "search": "api",
    "simulate": "api",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"infopt.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
