"""The journal: one small text file that makes a writer's buffers self-describing.

JSON lines. The first is the header; then one line a segment; on close, the end::

    {"binref_journal": 1, "run": "7f3c", "id": "5c1e", "created_ns": 1790000000000000000,
     "name": "temperature", "labels": {"dims": ["time", "y", "x"], "attrs": {"units": "K"}},
     "total": 2000, "compression": null, "time": {"buffer": "9a.bin", "dtype": "float64"}}
    {"segment": {"start": 0, "buffer": "3f2c.bin", "offset": 0, "shape": [64, 64],
     "dtype": "float64"}}
    {"end": {"count": 2000}}

No line is written per snapshot. How many are complete follows from the sizes of the
files: the least of data, times and, for compressed buffers, records of the table. A
record is two little-endian int64: offset and compressed size of one snapshot.
(Snapshots without elements have no bytes to count; they get a ``{"count": n}`` line.)
"""

from binref_sci.journal.block import (
    Block,
    block_of,
)
from binref_sci.journal.coordinates import (
    INLINE_COORDINATE,
)
from binref_sci.journal.lines import (
    MAGIC,
    RECORD,
    RECORD_BYTES,
    SUFFIX,
    VERSION,
    Form,
    Header,
    SegmentLine,
    Text,
    TimeBuffer,
    count_line,
    end_line,
)
from binref_sci.journal.locks import (
    hold,
    locked,
    take_lock,
)
from binref_sci.journal.reading import (
    Journal,
    State,
    read_journal,
    read_records,
)

__all__ = [
    "INLINE_COORDINATE",
    "MAGIC",
    "RECORD",
    "RECORD_BYTES",
    "SUFFIX",
    "VERSION",
    "Block",
    "Form",
    "Header",
    "Journal",
    "SegmentLine",
    "State",
    "Text",
    "TimeBuffer",
    "block_of",
    "count_line",
    "end_line",
    "hold",
    "locked",
    "read_journal",
    "read_records",
    "take_lock",
]
