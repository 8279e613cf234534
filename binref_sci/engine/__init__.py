"""From a run directory to xarray: what is there, how it is labelled, whether it holds together."""

from binref_sci.engine.entrypoint import BinrefBackendEntrypoint
from binref_sci.engine.following import Follower, follow
from binref_sci.engine.opening import open_dataset, open_datatree
from binref_sci.engine.references import open_references
from binref_sci.engine.saving import to_binref

__all__ = [
    "BinrefBackendEntrypoint",
    "Follower",
    "follow",
    "open_dataset",
    "open_datatree",
    "open_references",
    "to_binref",
]
