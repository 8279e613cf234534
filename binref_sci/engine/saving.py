"""`to_binref`: save a Dataset, in parallel, as what `open_dataset` opens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import xarray as xr

from binref_sci.engine.before import Mode, manifest_before
from binref_sci.engine.encoding import datasets_of
from binref_sci.engine.placing import Saving
from binref_sci.folders import local_folder

Durability = Literal["process", "power"]


def to_binref(
    obj: Any,
    path: str | os.PathLike[str],
    *,
    mode: Mode | None = None,
    region: Mapping[str, slice | str] | str | None = None,
    append_dim: str | None = None,
    compute: bool = True,
    template: bool = False,
    group: str | None = None,
    encoding: Mapping[Any, Any] | None = None,
    durability: Durability = "process",
) -> Any:
    """Save labelled arrays as a folder of plain buffers that `open_dataset` opens.

    Chunks of dask arrays are written where they are computed, by threads, processes or the
    workers of a cluster, each to its own bytes of a file, without locks; all variables
    are computed together, so that what they share is computed once. Nothing can be seen
    before all has been written: then it appears in one step.

    Parameters
    ----------
    obj
        A DataArray, Dataset, DataTree, or a dask or NumPy array (saved as ``data``).
    path
        Local folder. All workers must see it under this path.
    mode
        ``"w-"``, the default: make it; what exists is an error. ``"w"``: replace what
        `to_binref` saved there before (it may be the source of what is written). ``"a"``:
        add variables, and replace those of the same names; dimensions keep their lengths.
        ``"r+"``: write into variables that are there, whose shape stays. `region` implies
        ``"r+"``, `append_dim` ``"a"``.
    region
        Where the data belongs in what is there: slices by dimension, or ``"auto"``, which
        finds them by coordinates, for one dimension or for all. Bytes are written in place.
    append_dim
        Dimension along which the data is added at the end. It must be the first one of each
        variable that has it, and all of these must be given.
    compute
        False: return a Delayed; the folder appears when that has been computed. NumPy
        arrays are written now.
    template
        True: nothing of dask's is computed. It is zeros that take no room on the disk, until
        `region` writes into it, at the same time from as many processes as there are.
    group
        Where in the tree a Dataset or DataArray is saved (``"flow"``); default: its root.
    encoding
        Settings by variable, over those in each variable's ``encoding``; of a DataTree by
        group, then by variable: ``dtype``, ``scale_factor``, ``add_offset``, ``_FillValue``,
        ``units``, ``calendar`` as in xarray, and ``compression="lz4"``, which takes effect
        for variables of two dimensions or more: one frame for each index of the first. What
        is continued or written into stays encoded as it is.
    durability
        ``"process"``: a crash of the process loses nothing that was published.
        ``"power"``: nor does a loss of power; each chunk waits for the disk.

    Returns
    -------
    None or dask.delayed.Delayed
        The latter with ``compute=False``.

    Raises
    ------
    DatasetExistsError
        If there is something that `mode` does not replace (a FileExistsError).
    BufferNotFoundError
        If there is nothing to write into (a FileNotFoundError).
    WriterError
        If the data does not fit what is there, or another has saved in between (a ValueError).
    UnsupportedDTypeError
        If a variable cannot be stored (a TypeError); before a byte is written.
    FormatError
        If `path` is a URL, or empty, or lies in a file (a ValueError).
    TypeError, ValueError
        If an argument has no meaning, or none beside the others, as `group` has for a DataTree.

    Examples
    --------
    >>> import tempfile, numpy as np, xarray as xr
    >>> from binref_sci.engine import open_dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> ds = xr.Dataset({"heat": (("time", "x"), np.eye(3))}, {"time": [0.0, 0.5, 1.0]})
    >>> to_binref(ds.chunk(time=1), f"{folder.name}/copy")
    >>> later = ds.assign_coords(time=[1.5, 2.0, 2.5])
    >>> to_binref(later, f"{folder.name}/copy", append_dim="time")
    >>> open_dataset(f"{folder.name}/copy").heat.sel(time=2.0).values
    array([0., 1., 0.])
    >>> folder.cleanup()
    """
    mode = _mode(mode, region, append_dim)
    if template and mode == "r+":
        raise ValueError("template=True makes what region= and mode='r+' write into: give one")
    if durability not in ("process", "power"):
        raise ValueError(f'durability must be "process" or "power", got {durability!r}')
    groups = datasets_of(obj)
    if group is not None:
        groups = _grouped(groups, group, obj)
    target = local_folder(path)
    if Path(target).is_symlink():
        target = os.path.realpath(target)  # what it leads to is saved, the link stays
    settings = _settings(encoding, groups, by_group=isinstance(obj, xr.DataTree))
    before = manifest_before(target, mode)
    saving = Saving(target, before, sync=durability == "power", template=template)
    if region is not None or mode == "r+":
        saving.into(groups, {} if region is None else region, explicit=region is not None)
    else:
        saving.add(groups, settings, append_dim, replaces=mode == "w")
    return saving.run(compute=compute)


def _settings(encoding: Any, groups: Mapping[str, xr.Dataset], *, by_group: bool) -> dict[str, Any]:
    """Return the settings of variables, by group."""
    if encoding is None:
        return {}
    if not isinstance(encoding, Mapping):
        raise TypeError(f"encoding must be a dict of settings by variable, got {encoding!r}")
    if not by_group:
        return dict.fromkeys(groups, encoding)
    unknown = set(encoding) - set(groups)
    if unknown:
        raise ValueError(
            f"encoding names groups {sorted(map(str, unknown))}; there are {sorted(groups)}"
        )
    return dict(encoding)


def _grouped(groups: dict[str, xr.Dataset], group: str, obj: Any) -> dict[str, xr.Dataset]:
    if isinstance(obj, xr.DataTree):
        raise TypeError(
            f"group={group!r} says where a Dataset is saved; the groups of a DataTree have names: "
            f"save DataTree.from_dict({{{group!r}: tree}})"
        )
    return {f"/{group.strip('/')}": groups["/"]}


def _mode(mode: Any, region: Any, append_dim: Any) -> Mode:
    if region is not None and append_dim is not None:
        raise ValueError("region= writes into what is there, append_dim= behind it: give one")
    if mode is None:
        return "r+" if region is not None else "a" if append_dim is not None else "w-"
    if mode not in ("w-", "w", "a", "r+"):
        raise ValueError(f'mode must be "w-", "w", "a" or "r+", got {mode!r}')
    if region is not None and mode not in ("a", "r+"):
        raise ValueError(f'region= writes into what is there: mode must be "r+", got {mode!r}')
    if append_dim is not None and mode != "a":
        raise ValueError(f'append_dim= adds to what is there: mode must be "a", got {mode!r}')
    checked: Mode = mode
    return checked
