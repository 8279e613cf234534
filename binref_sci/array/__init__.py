"""One array on disk, read where it is indexed."""

from binref_sci.array.binref_array import BinrefArray, equals_list
from binref_sci.array.finding import folder_to_write
from binref_sci.array.layout import Layout

__all__ = ["BinrefArray", "Layout", "equals_list", "folder_to_write"]
