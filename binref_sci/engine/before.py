"""What lies already where a dataset is saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import xarray as xr

from binref_sci.engine.manifest import Group, Manifest, read_manifest
from binref_sci.engine.saved import decoded, saved_variables
from binref_sci.engine.text import TextArray
from binref_sci.engine.variables import Made, to_variable
from binref_sci.errors import BufferNotFoundError, DatasetExistsError
from binref_sci.journal import Journal, read_journal

Mode = Literal["w-", "w", "a", "r+"]


def manifest_before(target: str, mode: Mode) -> Manifest | None:
    """Return what has been saved there, if it is to stay or to be replaced."""
    place = Path(target)
    if not place.exists():
        if mode == "r+":
            raise BufferNotFoundError(
                f"there is no saved dataset {target!r} to write into; template=True makes one, and "
                "with compute=False it is there once what was returned has been computed"
            )
        return None
    if not place.is_dir():
        raise DatasetExistsError(f"{target!r} is a file; a dataset is saved as a folder")
    if mode != "r+" and next(place.iterdir(), None) is None:
        if place.is_mount() or place.samefile("."):
            raise DatasetExistsError(
                f"{target!r} is the working directory or a mount point, which a new folder cannot "
                "take the place of; save to a folder in it"
            )
        return None
    if mode == "w-":
        raise DatasetExistsError(
            f"{target!r} exists; mode='w' replaces a saved dataset, mode='a' adds to it"
        )
    manifest = read_manifest(target)
    if manifest is None:
        raise DatasetExistsError(
            f"{target!r} holds something that to_binref has not saved, and is left as it is; "
            "save to another path"
        )
    return manifest


@dataclass
class Before:
    """A group that is there: its variables as they lie on disk, and as they open."""

    group: Group
    directory: str
    made: dict[str, Made] = field(init=False)
    raw: dict[str, xr.Variable] = field(init=False)

    def __post_init__(self) -> None:
        self.made = {one.name: one for one in saved_variables(self.group, self.directory)}
        self.raw = {name: to_variable(one) for name, one in self.made.items()}

    def journal(self, name: str) -> Journal:
        """Return the journal of a variable."""
        return read_journal(Path(self.directory, self.group.variables[name]))

    def continues(self, name: str, dims: tuple[Any, ...], append_dim: str | None) -> bool:
        """Tell whether new data of these dims is added to a variable; an empty one is replaced."""
        return append_dim in dims and name in self.raw and self.raw[name].sizes.get(append_dim) != 0

    @property
    def widths(self) -> dict[str, int]:
        """Characters of the variables of text."""
        return {
            name: one.data.codes.shape[-1]
            for name, one in self.made.items()
            if isinstance(one.data, TextArray) and one.data.size
        }

    @cached_property
    def opened(self) -> xr.Dataset:
        """The group, as it opens."""
        return decoded(self.raw, self.group)

    def continued(self, append_dim: str | None) -> dict[str, xr.Variable]:
        """Return the variables that will be continued, as they open."""
        return {
            str(name): one
            for name, one in self.opened.variables.items()
            if self.continues(str(name), one.dims, append_dim)
        }
