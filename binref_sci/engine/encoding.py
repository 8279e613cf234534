"""A Dataset as it is stored: encoded by CF with xarray's own functions."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import dask.array as da
import numpy as np
import xarray as xr

from binref_sci.dtypes import checked_dtype
from binref_sci.engine.text import text_kind, to_codes
from binref_sci.errors import (
    BinrefError,
    UnknownVariableError,
    UnsupportedDTypeError,
    WriterError,
)
from binref_sci.journal import Form
from binref_sci.labels import attrs_to_json
from binref_sci.reference import checked_compression

DATA_NAME: Final = "__xarray_dataarray_variable__"
"""What xarray calls a DataArray without a name when it is saved."""

NO_NAME: Final = "__values__"
"""What xarray calls a variable whose name is None when it is saved."""

_CF: Final = frozenset(
    [
        "dtype",
        "scale_factor",
        "add_offset",
        "_FillValue",
        "missing_value",
        "units",
        "calendar",
        "_Unsigned",
        "coordinates",
        *xr.conventions.CF_RELATED_DATA,
    ]
)
_STAND_INS: Final = ("_FillValue", "missing_value")
_UNIT_KEYS: Final = ("units", "calendar", "dtype")
_VALUE_KEYS: Final = ("scale_factor", "add_offset", *_STAND_INS, "_Unsigned")


@dataclass
class Part:
    """One variable, ready to be stored.

    Parameters
    ----------
    name
        Of the variable.
    dims
        One name an axis; text has one axis more in `data`.
    data
        A NumPy array, or a dask array, of a dtype that can be stored.
    attrs
        Those of CF included.
    form
        How it becomes snapshots.
    compression
        Codec, or None.
    """

    name: str
    dims: tuple[str, ...]
    data: Any
    attrs: dict[str, Any]
    form: Form
    compression: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the variable, without the axis of characters."""
        return tuple(self.data.shape[: len(self.dims)])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is stored."""
        return checked_dtype(self.data.dtype)


@dataclass(frozen=True)
class Encoded:
    """A Dataset, ready to be stored.

    Parameters
    ----------
    parts
        Its variables.
    attrs
        Those of CF included.
    coords
        Coordinates whose names CF's attribute cannot hold: those with a space.
    """

    parts: dict[str, Part]
    attrs: dict[str, Any]
    coords: tuple[str, ...]


def datasets_of(obj: Any) -> dict[str, xr.Dataset]:
    """Return what is to be saved as Datasets by the path of their group.

    Raises
    ------
    TypeError
        If it is none of the kinds that can be saved.
    """
    if isinstance(obj, xr.DataTree):
        return {node.path: _named_all(node.to_dataset(inherit=False)) for node in obj.subtree}
    if isinstance(obj, xr.Dataset):
        return {"/": _named_all(obj)}
    if isinstance(obj, da.Array | np.ndarray):
        obj = xr.DataArray(obj, name="data")
    if isinstance(obj, xr.DataArray):
        name = DATA_NAME if obj.name is None else obj.name
        if name in obj.coords and not obj.coords[name].identical(obj):
            raise ValueError(f"the DataArray and a coordinate of it are both called {name!r}")
        return {
            "/": obj.to_dataset(name=name) if name not in obj.coords else obj.coords.to_dataset()
        }
    raise TypeError(
        "to_binref saves a DataArray, Dataset, DataTree, dask or NumPy array, got "
        f"{type(obj).__name__}"
    )


def encode(
    ds: xr.Dataset,
    encoding: Mapping[Hashable, Mapping[str, Any]] | None,
    like: Mapping[str, xr.Variable] | None = None,
    widths: Mapping[str, int] | None = None,
) -> Encoded:
    """Encode a Dataset.

    Parameters
    ----------
    ds
        What is to be saved.
    encoding
        Settings by variable, over those in each variable's own `encoding`.
    like
        Variables that are there already, decoded: those of the same name are encoded
        as they are.
    widths
        Characters that text of these variables has room for.

    Raises
    ------
    UnsupportedDTypeError, ValueError
        Naming the variable.
    """
    _check_names(ds)
    given = dict(encoding or {})
    unknown = set(given) - set(ds.variables)
    if unknown:
        flat = unknown <= _CF | {"compression"}
        hint = "; give settings by variable, as {'u': {'compression': 'lz4'}}" if flat else ""
        raise UnknownVariableError(
            f"encoding names {sorted(map(str, unknown))}, but there are no such variables{hint}"
        )
    prepared = ds.copy(deep=False)
    codecs: dict[str, str | None] = {}
    for name in prepared.variables:
        variable = prepared.variables[name]
        if not isinstance(variable.dtype, np.dtype):
            raise UnsupportedDTypeError(
                f"variable {name!r} has the dtype {variable.dtype} of pandas, which cannot be "
                "stored; convert it with .astype(), to text or numbers"
            )
        if variable.dtype.kind == "T":  # NumPy's StringDType, which xarray cannot encode
            prepared[name] = variable.astype(object)
            variable = prepared.variables[name]
        settings = _settings(str(name), variable.encoding, given.get(name, {}))
        codecs[str(name)] = checked_compression(settings.pop("compression", None))
        if like is not None and name in like:
            settings = {k: v for k, v in like[str(name)].encoding.items() if k in _CF}
            _check_cast(str(name), variable, like[str(name)])
        if text_kind(variable) is not None:
            settings.pop("dtype", None)  # xarray would cut text to the width it once had
        variable.encoding = settings
    spaced = _spaced(prepared)
    variables, attrs = xr.conventions.encode_dataset_coordinates(prepared.reset_coords(spaced))
    variables, attrs = xr.conventions.cf_encoder(variables, attrs)
    attrs_to_json(attrs)  # refused now, not when everything has been written
    parts = {}
    for name, variable in variables.items():
        width = (widths or {}).get(str(name))
        try:
            parts[str(name)] = _part(str(name), variable, codecs[str(name)], width)
        except UnsupportedDTypeError as error:
            raise type(error)(_named(str(name), error)) from error
    return Encoded(parts, dict(attrs), tuple(sorted(spaced)))


def _check_cast(name: str, new: xr.Variable, old: xr.Variable) -> None:
    """Refuse data that would lose digits when it is stored as what is there."""
    numbers = new.dtype.kind in "biufc" and old.dtype.kind in "biufc"
    if numbers and "scale_factor" not in old.encoding and "add_offset" not in old.encoding:
        if not np.can_cast(new.dtype, old.dtype, "safe"):
            raise WriterError(
                f"variable {name!r} was saved with dtype {old.dtype.name}, the new data has "
                f"{new.dtype.name}; convert it with .astype({old.dtype.name!r})"
            )


def _spaced(ds: xr.Dataset) -> list[str]:
    """Return coordinates that CF's list of names cannot hold; the manifest names them."""
    return [str(name) for name in ds.coords if " " in str(name) and name not in ds.dims]


def _named(name: str, error: BinrefError) -> str:
    text = str(error)
    return text if text.startswith("variable ") else f"variable {name!r}: {text}"


def _named_all(ds: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose variable without a name has the one that xarray saves it under."""
    return ds.rename({None: NO_NAME}) if None in ds.variables else ds


def _check_names(ds: xr.Dataset) -> None:
    for name in (*ds.variables, *ds.dims):
        if not isinstance(name, str):
            raise TypeError(
                f"a variable or dimension is called {name!r}; it is saved under a name that is a "
                "string or None: rename it"
            )
        if not name:
            raise ValueError(
                f"a variable or dimension is called {name!r}; to be saved, the string must be length "
                "1 or more: rename it"
            )


def _settings(name: str, own: Mapping[str, Any], given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(
            f"encoding of variable {name!r} must be castable to a dict of settings, got {given!r}"
        )
    unknown = set(given) - _CF - {"compression"}
    if unknown:
        raise ValueError(
            f"unexpected encoding of variable {name!r}: {sorted(unknown)}; known are "
            f"{', '.join(sorted(_CF | {'compression'}))}"
        )
    # Another format's chunks or codec, in what came from its file, are no wish for ours.
    return {key: value for key, value in own.items() if key in _CF} | dict(given)


def _part(name: str, variable: xr.Variable, compression: str | None, width: int | None) -> Part:
    dims = tuple(map(str, variable.dims))
    data = variable.data
    kind = text_kind(data)
    if kind is not None:
        # How wide fixed-width text is, is known when all of it is.
        data = to_codes(np.asarray(variable.values), kind, name, width)
    elif not isinstance(data, da.Array):
        data = np.asarray(variable.values)
    elif any(np.isnan(length) for length in data.shape):
        raise WriterError(
            f"variable {name!r} is a dask array with chunks of unknown length; call "
            "compute_chunk_sizes() on it first"
        )
    checked_dtype(data.dtype)
    if data.dtype.kind == "O" or isinstance(getattr(data, "_meta", data), np.ma.MaskedArray):
        raise UnsupportedDTypeError("masked arrays cannot be stored; fill them first")
    attrs = _with_typed_stand_ins(variable.attrs, data.dtype)
    return Part(name, dims, data, attrs, Form(not dims, kind), compression)


def _with_typed_stand_ins(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return attributes whose values for what is missing have the dtype of the data.

    CF (section 2.5.1) asks for that. xarray relies on it where unsigned integers stand for signed
    ones: which one 255 stands for follows from its bits, and a Python integer has no width. A
    value that the dtype cannot hold stays as it is.
    """
    typed = dict(attrs)
    for key in _STAND_INS:
        value = typed.get(key)
        if isinstance(value, int | float) and dtype.kind in "iuf":
            with suppress(OverflowError, ValueError), np.errstate(over="ignore"):
                cast = dtype.type(value)
                if cast.item() == value or np.isnan(cast):
                    typed[key] = cast
    return typed


def check_same(name: str, before: xr.Variable, after: Part) -> None:
    """Check that new data is encoded as the data that is there.

    Parameters
    ----------
    before
        As it lies on disk.

    Raises
    ------
    WriterError
        Naming what differs.
    """
    kind = text_kind(before)
    if after.form.text != kind:
        raise WriterError(
            f"variable {name!r} was saved with dtype {before.dtype}, the new data is "
            f"{'text' if after.form.text else after.dtype.name}"
        )
    if kind is None and before.dtype != after.dtype:
        raise WriterError(
            f"variable {name!r} was saved as {before.dtype.name}, the new data is encoded as "
            f"{after.dtype.name}"
        )
    if before.dims != after.dims:
        raise WriterError(
            f"variable {name!r} was saved with dims {before.dims}, the new data has {after.dims}; "
            "transpose it"
        )
    for key in (*_UNIT_KEYS, *_VALUE_KEYS):
        old, new = before.attrs.get(key), after.attrs.get(key)
        if key == "units":
            old, new = _reference(old), _reference(new)
        same = old is new or np.array_equal(
            np.asarray(old), np.asarray(new), equal_nan=key in _VALUE_KEYS and _is_float(old, new)
        )
        cares = key in _VALUE_KEYS or " since " in str(old) or " since " in str(new)
        if cares and not same and not (key == "_FillValue" and (old is None or new is None)):
            raise WriterError(
                f"variable {name!r} was saved with {key} {old!r}, the new data needs {new!r}, "
                "and would be misread; save it again as a whole with encoding that fits both"
            )


def _reference(units: Any) -> Any:
    """Return time units as xarray rewrites them: midnight is left out."""
    if not isinstance(units, str) or " since " not in units:
        return units
    return re.sub(r"[ T]00:00(:00(\.0*)?)?(Z|\+00:?00)?$", "", units.strip())


def _is_float(*values: Any) -> bool:
    return all(np.asarray(value).dtype.kind == "f" for value in values)
