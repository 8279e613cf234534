"""The names of ``tesseract_core.runtime.experimental`` that this package offers.

So that a component needs one change, ``tesseract_core`` to ``binref_sci``. New code
imports both from `binref_sci` itself.
"""

from binref_sci.array import BinrefArray
from binref_sci.writer import BinrefWriter

__all__ = ["BinrefArray", "BinrefWriter"]
