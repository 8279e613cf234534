"""`Labels`: dimension names, coordinates and attributes of a field.

Attributes keep their NumPy type on disk: a float32 scale factor or an int8 fill
value comes back as it was, NaN and infinities included.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.dtypes import DTYPES, to_stored
from binref_sci.errors import UnsupportedDTypeError

_TYPED = "binref:type"
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


class Labels:
    """How a field is labelled, following CF and xarray. Immutable.

    Parameters
    ----------
    dims
        Name of each axis, in order; for a list of snapshots the first is the
        axis along the list.
    coords
        Coordinate values by name, each 1-D along the dimension of its name, or
        a pair ``(dims, values)``, or a triple ``(dims, values, attrs)``.
    **attrs
        Attributes such as ``units="K"``, ``long_name=...``, ``standard_name=...``.

    Examples
    --------
    >>> Labels(dims=("time", "y", "x"), units="K")
    Labels(dims=('time', 'y', 'x'), units='K')
    """

    __slots__ = ("attrs", "coords", "dims")

    dims: tuple[str, ...] | None
    coords: dict[str, tuple[tuple[str, ...], NDArray[Any], dict[str, Any]]]
    attrs: dict[str, Any]

    def __init__(
        self,
        dims: tuple[str, ...] | list[str] | str | None = None,
        coords: Mapping[str, Any] | None = None,
        **attrs: Any,
    ) -> None:
        self._set(dims, coords or {}, attrs)

    @classmethod
    def of(cls, dims: Any, coords: Mapping[str, Any], attrs: Mapping[str, Any]) -> Labels:
        """Return labels whose attributes may have any name, ``"dims"`` too."""
        self = object.__new__(cls)
        self._set(dims, coords, attrs)
        return self

    def _set(self, dims: Any, coords: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        for what, given in (("coords", coords), ("attrs", attrs)):
            if not isinstance(given, Mapping):
                raise TypeError(f"{what} must be a dict of names to values, got {given!r}")
        if dims is not None:
            dims = _checked_dims(dims)
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "coords", {n: _coordinate(n, c) for n, c in coords.items()})
        # There and back: refuses now, not when the run ends, what cannot be kept, and lets
        # nobody change afterwards what was given.
        try:
            kept = attrs_from_json(attrs_to_json(attrs))
        except RecursionError:
            raise ValueError("attrs are nested too deep, or contain themselves") from None
        object.__setattr__(self, "attrs", kept)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Labels are immutable; cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Labels.of, (self.dims, self.coords, self.attrs)

    def __repr__(self) -> str:
        parts = [f"dims={self.dims!r}"] if self.dims is not None else []
        parts += [f"coords={sorted(self.coords)}"] if self.coords else []
        parts += [f"{name}={value!r}" for name, value in self.attrs.items()]
        return f"Labels({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __hash__(self) -> int:
        # Of the names alone: what they stand for may be arrays. `Annotated[..., labels] | None`
        # needs a hash.
        return hash((self.dims, frozenset(self.coords), frozenset(self.attrs)))

    def to_json(self) -> dict[str, Any]:
        """Return a dict that plain JSON can hold."""
        made: dict[str, Any] = {}
        if self.dims is not None:
            made["dims"] = list(self.dims)
        if self.coords:
            made["coords"] = {
                name: {
                    "dims": list(dims),
                    "values": _array_to_json(values),
                    "attrs": attrs_to_json(attrs),
                }
                for name, (dims, values, attrs) in self.coords.items()
            }
        if self.attrs:
            made["attrs"] = attrs_to_json(self.attrs)
        return made

    @classmethod
    def from_json(cls, made: Mapping[str, Any]) -> Labels:
        """Undo `to_json`."""
        coords = {
            name: (c["dims"], _array_from_json(c["values"]), attrs_from_json(c.get("attrs", {})))
            for name, c in made.get("coords", {}).items()
        }
        return Labels.of(made.get("dims"), coords, attrs_from_json(made.get("attrs", {})))

    def replace(self, **changes: Any) -> Labels:
        """Return labels with `dims`, `coords` or `attrs` exchanged."""
        return Labels.of(
            changes.get("dims", self.dims),
            changes.get("coords", self.coords),
            changes.get("attrs", self.attrs),
        )


def _checked_dims(dims: Any) -> tuple[str, ...]:
    names = (dims,) if isinstance(dims, str) else dims
    if not isinstance(names, Iterable) or isinstance(names, set | frozenset):
        raise TypeError(f"dims must be a sequence of names, in order, got {dims!r}")
    names = tuple(names)
    if not all(isinstance(dim, str) and dim for dim in names):
        raise ValueError(f"dims must be non-empty strings, got {names!r}")
    if len(set(names)) != len(names):
        raise ValueError(f"dims must differ from each other, got {names!r}")
    return tuple(checked_text(dim, "dims") for dim in names)


def checked_text(text: str, what: str) -> str:
    """Return text that a JSON file can hold.

    Raises
    ------
    ValueError
        If it holds half of a character (a lone surrogate), which UTF-8 does not have.

    Examples
    --------
    >>> checked_text("K", "units")
    'K'
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what}: {text!r} cannot be stored as UTF-8, character {error.start} is a lone "
            "surrogate"
        ) from None
    return text


def _coordinate(name: str, value: Any) -> tuple[tuple[str, ...], NDArray[Any], dict[str, Any]]:
    if (
        isinstance(value, tuple)
        and len(value) in (2, 3)
        and isinstance(value[0], str | tuple | list)
    ):
        dims, value, *rest = value
        attrs = rest[0] if rest else {}
    else:
        # an xarray coordinate brings its own
        dims, attrs = getattr(value, "dims", None), getattr(value, "attrs", {})
        dims = dims if isinstance(dims, tuple) else None
    values = _frozen(name, value)
    if dims is None:
        dims = (name,) if values.ndim else ()
    dims = (dims,) if isinstance(dims, str) else tuple(dims)
    if values.ndim != len(dims):
        raise ValueError(
            f"coordinate {name!r} has {values.ndim} axes, but dims {dims!r}; "
            "pass (dims, values) for a coordinate that is not 1-D along its own name"
        )
    return dims, values, attrs_from_json(attrs_to_json(attrs))


def _frozen(name: str, value: Any) -> NDArray[Any]:
    """Return values of a coordinate as an array of our own, that nobody changes."""
    try:
        values = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"coordinate {name!r} is neither an array nor (dims, values) nor (dims, values, attrs): "
            f"{error}"
        ) from None
    if not values.flags.writeable and values.base is None and _is_stored(values):
        return values  # one that was made here
    if values.dtype.kind in "OT" and all(isinstance(item, str) for item in values.flat):
        values = values.astype(str)  # how pandas and xarray hold text
    try:
        values = values.copy() if values.dtype.kind == "U" else np.array(to_stored(value))
    except UnsupportedDTypeError as error:
        raise UnsupportedDTypeError(f"coordinate {name!r}: {error}; pass numbers or text") from None
    values.flags.writeable = False
    return values


def _is_stored(values: NDArray[Any]) -> bool:
    return values.dtype is DTYPES.get(values.dtype.name) and values.flags.c_contiguous


def attrs_to_json(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as JSON values that remember their NumPy type."""
    return {
        checked_text(str(name), "attrs"): _attribute_to_json(value, name)
        for name, value in attrs.items()
    }


def attrs_from_json(made: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `attrs_to_json`."""
    return {name: _attribute_from_json(value) for name, value in made.items()}


def _attribute_to_json(value: Any, name: Any) -> Any:
    if isinstance(value, str):
        return checked_text(str(value), f"attribute {name!r}")
    if isinstance(value, np.ndarray | np.generic):
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        try:
            return {_TYPED: kind, **_array_to_json(np.asarray(value))}
        except UnsupportedDTypeError as error:
            raise UnsupportedDTypeError(f"attribute {name!r}: {error}") from None
    if isinstance(value, float) and not math.isfinite(value):
        return {_TYPED: "float", "data": _number_to_json(value)}
    if value is None or isinstance(value, bool | int | float):
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise ValueError(f"attribute {name!r}: {value} does not fit into 64 bits")
        return value
    if isinstance(value, complex):
        return _attribute_to_json(np.complex128(value), name)
    if isinstance(value, list | tuple):
        return [_attribute_to_json(item, name) for item in value]
    if isinstance(value, Mapping):
        return {_TYPED: "dict", "data": attrs_to_json(value)}
    raise UnsupportedDTypeError(
        f"attribute {name!r} is a {type(value).__name__}; use text, numbers, lists or NumPy values"
    )


def _attribute_from_json(made: Any) -> Any:
    if isinstance(made, list):
        return [_attribute_from_json(item) for item in made]
    if not isinstance(made, dict):
        return made
    kind = made.get(_TYPED)
    if kind is None:  # written by hand
        return attrs_from_json(made)
    if kind == "array":
        return _array_from_json(made)
    if kind == "scalar":
        return _array_from_json(made)[()]
    if kind == "float":
        return _INFINITIES[made["data"]]
    return attrs_from_json(made["data"])


def _array_to_json(values: NDArray[Any]) -> dict[str, Any]:
    if values.dtype.kind == "U":
        return {"dtype": "str", "shape": list(values.shape), "data": values.ravel().tolist()}
    values = to_stored(values)
    flat = values.ravel()
    if values.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    data: list[Any] = flat.tolist()
    if values.dtype.kind in "fc" and not np.isfinite(flat).all():
        data = [_number_to_json(number) for number in data]
    return {"dtype": values.dtype.name, "shape": list(values.shape), "data": data}


def _array_from_json(made: Mapping[str, Any]) -> NDArray[Any]:
    shape = tuple(made["shape"])
    if made["dtype"] == "str":
        return np.array(made["data"], dtype=str).reshape(shape)
    dtype = DTYPES[made["dtype"]]
    data = made["data"]
    if dtype.kind in "fc":
        data = [_INFINITIES.get(item, item) if isinstance(item, str) else item for item in data]
    if dtype.kind == "c":
        parts = np.array(data, dtype=np.empty(0, dtype).real.dtype)
        return parts.view(dtype).reshape(shape)
    return np.array(data, dtype=dtype).reshape(shape)


def _number_to_json(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number
