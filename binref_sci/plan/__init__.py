"""From an index to byte ranges: the one planner.

A stored array (`stored`) is a run of equal snapshots along axis 0, in one or more buffers
(`series`). A key becomes positions along each axis (`selection`), and those, buffer by buffer
(`reading`), *boxes*: regular grids of elements in one buffer (`boxes`). A box is read with as few
``preadv`` calls as its gaps allow, straight into the result where its elements are neighbours.
"""

from binref_sci.plan.segment import Segment, fold_offsets
from binref_sci.plan.stored import ON_DISK, REMOTE, Stored

__all__ = ["ON_DISK", "REMOTE", "Segment", "Stored", "fold_offsets"]
