"""Buffers, on disk and in stores: the only package that opens, reads and writes them."""

from binref_sci.storage.confinement import confine
from binref_sci.storage.finding import Identity, found_before, identity, size_of, status_of
from binref_sci.storage.leasing import kept_whole
from binref_sci.storage.populating import populated
from binref_sci.storage.reading import (
    Buffer,
    OpenBuffer,
    map_buffer,
    map_range,
    open_buffer,
    opened_buffer,
    read_into,
    read_into_many,
    require,
    truncated,
)
from binref_sci.storage.replacing import (
    discard,
    hidden_beside,
    sync_directory,
    taking_place,
    write_atomically,
)
from binref_sci.storage.roots import Root, place_of, root_of
from binref_sci.storage.stamps import may_be_from
from binref_sci.storage.writing import BUFFER_SUFFIX, create_buffer, write_at

__all__ = [
    "BUFFER_SUFFIX",
    "Buffer",
    "Identity",
    "OpenBuffer",
    "Root",
    "confine",
    "create_buffer",
    "discard",
    "found_before",
    "hidden_beside",
    "identity",
    "kept_whole",
    "map_buffer",
    "map_range",
    "may_be_from",
    "open_buffer",
    "opened_buffer",
    "place_of",
    "populated",
    "read_into",
    "read_into_many",
    "require",
    "root_of",
    "size_of",
    "status_of",
    "sync_directory",
    "taking_place",
    "truncated",
    "write_at",
    "write_atomically",
]
