"""Reading responses back in tests: plain and slow, independent of the client."""

import orjson

from binref_sci import BinrefArray, Trajectory, wire


def decode(text, *, directory=None, lazy=False):
    """Return the value of a response's JSON text, with its arrays."""
    return _decoded(orjson.loads(text), directory, lazy)


def _decoded(tree, directory, lazy):
    if isinstance(tree, dict) and wire.is_array_json(tree):
        if tree["data"]["encoding"] != "binref":
            return wire.decode_inline(tree)
        array = BinrefArray.from_ref(wire.ref_from_json(tree), directory)
        return array if lazy else array.load()
    if isinstance(tree, dict):
        return {key: _decoded(value, directory, lazy) for key, value in tree.items()}
    if isinstance(tree, list):
        items = [_decoded(value, directory, lazy) for value in tree]
        if items and set(map(type, items)) == {BinrefArray}:
            try:
                return Trajectory.from_refs(items)
            except ValueError:
                return items  # ragged
        return items
    return tree
