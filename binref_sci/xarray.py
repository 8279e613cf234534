"""``import binref_sci.xarray``: methods of this package on xarray's own objects, under ``.binref``.

`binref_sci.open_dataset` is enough to have them; import this module for objects from
elsewhere.
"""

from __future__ import annotations

import os
from typing import Any, Generic, TypeVar

import xarray as xr

import binref_sci.notebook as notebook
from binref_sci.engine import BinrefBackendEntrypoint, to_binref

__all__ = ["BinrefAccessor", "BinrefBackendEntrypoint"]

Labelled = TypeVar("Labelled", xr.DataArray, xr.Dataset, xr.DataTree)


class BinrefAccessor(Generic[Labelled]):
    """What a DataArray, Dataset or DataTree can do with this package.

    Examples
    --------
    >>> import tempfile
    >>> from binref_sci.engine import open_dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> xr.Dataset({"u": ("x", [1.0, 2.0])}).binref.to_binref(f"{folder.name}/copy")
    >>> open_dataset(f"{folder.name}/copy").u.values
    array([1., 2.])
    >>> folder.cleanup()
    """

    def __init__(self, obj: Labelled) -> None:
        self._obj: Labelled = obj

    def to_binref(self, path: str | os.PathLike[str], **kwargs: Any) -> Any:
        """Save as a folder of plain buffers; see `binref_sci.to_binref`.

        Parameters
        ----------
        path
            Local folder.
        **kwargs
            `mode`, `region`, `append_dim`, `compute`, `encoding`, `durability`.
        """
        return to_binref(self._obj, path, **kwargs)

    def animate(self, *args: Any, **kwargs: Any) -> notebook.Player:
        """Play it in the notebook; see `binref_sci.animate`.

        Parameters
        ----------
        *args
            Of a Dataset: names of variables, a panel each. Of a DataArray: `dim`.
        **kwargs
            As for `binref_sci.animate`.
        """
        if isinstance(self._obj, xr.DataTree):
            raise TypeError("a DataTree has many groups: play one, as tree['group'].ds")
        if args and isinstance(self._obj, xr.Dataset):
            names, args = args[0], args[1:]
            return notebook.animate(self._obj, *args, names=names, **kwargs)
        return notebook.animate(self._obj, *args, **kwargs)

    def plot_frame(self, i: int = 0, *args: Any, **kwargs: Any) -> Any:
        """Draw one frame on matplotlib's axes; see `binref_sci.plot_frame`.

        Parameters
        ----------
        i
            Number of the frame.
        *args, **kwargs
            As for `binref_sci.plot_frame`.
        """
        return notebook.plot_frame(self._obj, i, *args, **kwargs)


def _register() -> None:
    kinds: list[tuple[type, Any]] = [
        (xr.DataArray, xr.register_dataarray_accessor),
        (xr.Dataset, xr.register_dataset_accessor),
        (xr.DataTree, xr.register_datatree_accessor),
    ]
    for kind, register in kinds:
        if not hasattr(kind, "binref"):  # this module may have been reloaded
            register("binref")(BinrefAccessor)


_register()
