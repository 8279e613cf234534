"""What a quantity is called: label, unit, and one value as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr


def unit_of(obj: xr.DataArray) -> str:
    """Return the unit: of the array itself (pint), else the attribute ``units`` or ``unit``."""
    own = getattr(obj.variable._data, "units", None)
    if own is not None and not callable(own):
        return str(own)
    return str(obj.attrs.get("units", obj.attrs.get("unit", "")))


def label_of(obj: xr.DataArray) -> str:
    """Return ``long_name``, else ``standard_name``, else the name; then the unit in brackets.

    Examples
    --------
    >>> label_of(xr.DataArray([1.0], name="T", attrs={"units": "K", "long_name": "temperature"}))
    'temperature [K]'
    """
    name = next(
        (str(obj.attrs[key]) for key in ("long_name", "standard_name") if obj.attrs.get(key)),
        "" if obj.name is None else str(obj.name),
    )
    unit = unit_of(obj)
    return f"{name} [{unit}]".strip() if unit else name


def text_of(value: Any, unit: str = "") -> str:
    """Return one value with its unit, as short as six digits allow.

    Examples
    --------
    >>> text_of(1013.25, "hPa")
    '1013.25 hPa'
    """
    if isinstance(value, np.datetime64):
        text = str(np.datetime_as_string(value, unit="auto")).replace("T", " ")
    elif isinstance(value, np.timedelta64):
        text = f"{value / np.timedelta64(1, 's'):g} s"
    elif isinstance(value, np.bool_ | bool):
        text = str(bool(value))
    elif isinstance(value, np.integer | int):
        text = str(int(value))
    elif isinstance(value, np.floating | float):
        text = f"{float(value):.6g}"
    else:
        text = str(value)
    return f"{text} {unit}" if unit else text
