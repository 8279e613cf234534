"""One array on disk, read where it is indexed."""

from binref_sci.array.binref_array import BinrefArray
from binref_sci.array.finding import folder_to_write
from binref_sci.array.layout import Layout
from binref_sci.array.stored_array import StoredArray

__all__ = ["BinrefArray", "Layout", "StoredArray", "folder_to_write"]
