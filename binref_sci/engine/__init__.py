"""From a run directory to xarray: what is there, how it is labelled, whether it holds together."""

from binref_sci.engine.dataset import open_dataset
from binref_sci.engine.references import open_references

__all__ = ["open_dataset", "open_references"]
