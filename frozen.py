"""`@dataclass(frozen=True, slots=True)` that costs a quarter at import.

The standard decorator compiles six methods for every class, at every start of the program: 0.4 ms a class, and there
are some forty on the way of `plan`. Here one method is compiled, `__init__`; the rest is shared by all classes and
loops over the slots. What the program sees is the same: construction by position and keyword, defaults and factories,
equality and hash by value, `replace`, `fields`, pickling, `FrozenInstanceError`. Type checkers see the standard
decorator. Not covered, for nothing here needs it: inheriting fields, `ClassVar`, `InitVar`, `KW_ONLY`, `__post_init__`,
and `field` options other than defaults.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from dataclasses import MISSING, Field, FrozenInstanceError
    from typing import Any

    def _refuse_set(self: Any, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_delete(self: Any, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _values(self: Any) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__slots__])

    def _equal(self: Any, other: object) -> bool:
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _hash(self: Any) -> int:
        return hash(_values(self))

    def _repr(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{self.__class__.__qualname__}({shown})"

    def _restore(self: Any, values: tuple[object, ...]) -> None:
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    _SHARED = {
        "__setattr__": _refuse_set,
        "__delattr__": _refuse_delete,
        "__eq__": _equal,
        "__hash__": _hash,
        "__repr__": _repr,
        "__getstate__": _values,
        "__setstate__": _restore,
    }

    def _field(name: str, kind: object, default: object) -> Field:
        made = default if isinstance(default, Field) else dataclasses.field(default=default)
        made.name, made.type, made._field_type = name, kind, dataclasses._FIELD  # what fields() and replace() read
        return made

    def _init(fields: dict[str, Field]) -> Any:
        """The one compiled method: parameters in order, defaults from the enclosing names."""
        names: dict[str, object] = {"_set": object.__setattr__, "_missing": MISSING}
        parameters, lines = ["self"], ["    pass"]
        for name, made in fields.items():
            value = name
            if made.default is not MISSING:
                names[f"_default_{name}"] = made.default
                parameters.append(f"{name}=_default_{name}")
            elif made.default_factory is not MISSING:
                names[f"_make_{name}"] = made.default_factory
                parameters.append(f"{name}=_missing")
                value = f"_make_{name}() if {name} is _missing else {name}"
            else:
                parameters.append(name)
            lines.append(f"    _set(self, {name!r}, {value})")
        exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines), names)
        return names["__init__"]

    def dataclass(*, frozen: bool, slots: bool) -> Any:
        """Decorate a class of annotated fields; `frozen` and `slots` must both be true."""
        if not (frozen and slots):
            raise TypeError("only frozen dataclasses with slots: use the standard decorator for others")

        def decorate(cls: type) -> type:
            own = dict(cls.__dict__)
            annotations = own.get("__annotations__", {})
            fields = {name: _field(name, kind, own.pop(name, MISSING)) for name, kind in annotations.items()}
            if any(hasattr(base, "__dataclass_fields__") for base in cls.__bases__) or "__post_init__" in own:
                raise TypeError(f"{cls.__qualname__}: inheriting fields and __post_init__ need the standard decorator")
            own.pop("__dict__", None)
            own.pop("__weakref__", None)
            init = _init(fields)
            init.__qualname__ = f"{cls.__qualname__}.__init__"
            names = tuple(fields)
            methods = {name: method for name, method in _SHARED.items() if name not in cls.__dict__}
            own |= methods | {
                "__init__": init,
                "__slots__": names,
                "__match_args__": names,
                "__dataclass_fields__": fields,
            }
            made = type(cls)(cls.__name__, cls.__bases__, own)
            made.__qualname__ = cls.__qualname__
            return made

        return decorate


__all__ = ["dataclass"]
