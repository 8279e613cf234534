"""The names of ``tesseract_core.runtime.experimental`` that this package offers.

So that a component needs one change, ``tesseract_core`` to ``binref_sci``. New code
imports both from `binref_sci` itself.
"""

from binref_sci.array import BinrefArray
from binref_sci.runtime.derived import jacobian_from_jvp, jacobian_from_vjp
from binref_sci.runtime.finite import (
    finite_difference_jacobian,
    finite_difference_jvp,
    finite_difference_vjp,
)
from binref_sci.runtime.products import jvp_from_jacobian, vjp_from_jacobian
from binref_sci.writer import BinrefWriter

__all__ = [
    "BinrefArray",
    "BinrefWriter",
    "finite_difference_jacobian",
    "finite_difference_jvp",
    "finite_difference_vjp",
    "jacobian_from_jvp",
    "jacobian_from_vjp",
    "jvp_from_jacobian",
    "vjp_from_jacobian",
]
