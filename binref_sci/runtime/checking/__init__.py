"""Holding a component's gradient endpoints against finite differences.

For each input a few random directions are drawn, and the outputs' derivatives along them
are had by central differences. Then, for each output and input,

- the block of ``jacobian`` times the direction,
- ``jacobian_vector_product`` along the direction,
- the direction's product with ``vector_jacobian_product`` of a random cotangent

are compared with what the differences say, and so are both products for all inputs and
outputs at once, which are the sums of those for each. Blocks of ``jacobian`` are taken from the
whole; one of each output and one of each input are asked for alone too. A wrong entry shows in
every direction, so a few do for inputs of any size, and the number of evaluations does not grow
with it. How long the steps are is told in `ladder`.

The error is the largest difference, relative to the largest derivative that either side
has along this direction. What the rounding of the outputs leaves of a difference is allowed
on top: below it nothing is known. Of complex products the real parts are compared, along
complex directions: all that a real input by a complex output has.
"""

from binref_sci.runtime.checking.comparison import Comparison
from binref_sci.runtime.checking.gradients import DIRECTIONS, check_gradients

__all__ = ["DIRECTIONS", "Comparison", "check_gradients"]
