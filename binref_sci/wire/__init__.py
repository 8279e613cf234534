"""The wire format of tesseract-core, in both directions: the only parser and formatter of it.

An array on the wire is a JSON object::

    {"object_type": "array", "shape": [2], "dtype": "float64",
     "data": {"buffer": "run_7/a.bin:0", "encoding": "binref"}}

`data.encoding` is ``binref`` (the buffer is a place, ``path:offset[:compressed_size]``),
``base64``, or ``json`` (nested lists; ``raw`` is another name for it). The numbers that
JSON lacks are written so that nothing is lost but the payload of a NaN: NaN is ``null``,
the infinities are ``"Infinity"`` and ``"-Infinity"``, a complex number is a pair, and
integers are exact to 64 bits.

This package turns text into references and arrays and back. It opens no file: what a
reference names is the business of `binref_sci.array`.
"""

from binref_sci.wire.numbers import cast, numbers
from binref_sci.wire.objects import is_array_json, ref_from_json, ref_piece_maker, ref_to_json
from binref_sci.wire.places import format_buffer, parse_buffer
from binref_sci.wire.reading import decode_inline
from binref_sci.wire.writing import Sliceable, array_pieces, numbers_to_json

__all__ = [
    "Sliceable",
    "array_pieces",
    "cast",
    "decode_inline",
    "format_buffer",
    "is_array_json",
    "numbers",
    "numbers_to_json",
    "parse_buffer",
    "ref_from_json",
    "ref_piece_maker",
    "ref_to_json",
]
