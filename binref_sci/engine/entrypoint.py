"""`xarray.open_dataset(path, engine="binref")`: the backend that xarray finds by its name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import xarray as xr
from xarray.backends import BackendEntrypoint
from xarray.coders import CFDatetimeCoder, CFTimedeltaCoder

from binref_sci.engine.prepared import Prepared, prepare
from binref_sci.engine.sniff import is_ours


class BinrefBackendEntrypoint(BackendEntrypoint):
    """Run directories, results and journals of binref_sci, for xarray.

    `binref_sci.open_dataset` goes through it too, and gives dask names that follow the
    files: prefer it where files are rewritten, or a run is still going.
    """

    description: ClassVar[str] = "Open run directories, results and journals of binref_sci"
    url: ClassVar[str] = "https://binref-sci.readthedocs.io"
    supports_groups: ClassVar[bool] = True
    # By hand: xarray fills it in only for engines that are named by text.
    open_dataset_parameters: ClassVar[tuple[str, ...] | None] = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "group",
        "mmap",
        "storage_options",
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Tell by content whether something is ours; never raises."""
        return isinstance(filename_or_obj, Prepared) or is_ours(filename_or_obj)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        mmap: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> xr.Dataset:
        """Return the lazy Dataset, of the whole run or of one group of it.

        Parameters
        ----------
        filename_or_obj
            Run directory, output path, ``results.json`` or journal, or the URL of one.
        mask_and_scale, decode_times, concat_characters, decode_coords, use_cftime
            As for `xarray.open_dataset`.
        drop_variables
            Left out; their buffers may be missing.
        decode_timedelta
            Default: only what was written from time differences, ``"seconds"`` stay numbers.
        group
            A nested result (``"flow"``); default: everything, by path (``"flow.velocity"``).
        mmap
            Map the buffers of a complete run into memory instead of reading them.
        storage_options
            For the file system of a URL.
        """
        return _prepared(filename_or_obj, storage_options).dataset(
            group,
            drop=_names(drop_variables),
            mmap=mmap,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=_timedeltas(decode_times, decode_timedelta),
        )

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        mmap: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> dict[str, xr.Dataset]:
        """Return one Dataset a group, nested results being groups; see `open_dataset`."""
        return _prepared(filename_or_obj, storage_options).groups(
            group,
            drop=_names(drop_variables),
            mmap=mmap,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=_timedeltas(decode_times, decode_timedelta),
        )

    def open_datatree(self, filename_or_obj: Any, **kwargs: Any) -> xr.DataTree:
        """Return the groups as a tree; see `open_groups_as_dict`."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **kwargs))


def _prepared(source: Any, storage_options: Mapping[str, Any] | None) -> Prepared:
    if isinstance(source, Prepared):
        return source
    made = prepare(source, storage_options)
    if made.state == "writing":
        warnings.warn(
            f"the run in {os.fspath(made)!r} is still going: this Dataset is what was complete "
            "now, and xarray does not see the growth when it names dask chunks; use "
            "binref_sci.open_dataset or binref_sci.follow",
            stacklevel=4,
        )
    return made


def _names(given: str | Iterable[str] | None) -> frozenset[str]:
    """Return the names of variables that are given one, many or none."""
    if given is None:
        return frozenset()
    return frozenset([given] if isinstance(given, str) else given)


def _timedeltas(decode_times: Any, given: Any) -> Any:
    """Return how time differences are decoded: by default not for their units alone."""
    if given is not None:
        return given
    if not decode_times:
        return False
    unit = decode_times.time_unit if isinstance(decode_times, CFDatetimeCoder) else None
    return CFTimedeltaCoder(time_unit=unit, decode_via_units=False, decode_via_dtype=True)
