import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binref_sci.dtypes import DTYPES
from binref_sci.errors import (
    BinrefError,
    BufferNotFoundError,
    ComponentError,
    InvalidReferenceError,
    PayloadError,
    RemoteError,
    UnsupportedDTypeError,
)
from binref_sci.reference import ArrayRef


def test_a_reference_knows_its_bytes():
    ref = ArrayRef("run_7/position.bin", 1024, (500, 64, 3), "float64")
    assert (ref.size, ref.nbytes, ref.stored_size, ref.stop) == (96000, 768000, 768000, 769024)
    compressed = ArrayRef("a.bin", 10, (500,), "f4", "lz4", 77)
    assert (compressed.nbytes, compressed.stored_size, compressed.stop) == (2000, 77, 87)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"offset": -1}, InvalidReferenceError, "offset into buffer 'a.bin' must not be negative"),
        ({"offset": 1.0}, InvalidReferenceError, "whole number"),
        ({"offset": True}, InvalidReferenceError, "whole number"),
        ({"shape": (-1,)}, InvalidReferenceError, r"shape\[0\] must not be negative"),
        ({"shape": (2**40, 2**40)}, InvalidReferenceError, "more elements"),
        ({"dtype": "O"}, UnsupportedDTypeError, "object"),
        ({"dtype": None}, UnsupportedDTypeError, "None"),
        ({"path": ""}, InvalidReferenceError, "path"),
        ({"path": 7}, InvalidReferenceError, "path"),
        ({"compression": "zip", "compressed_size": 2}, InvalidReferenceError, "zip"),
        ({"compression": "lz4"}, InvalidReferenceError, "together"),
        ({"compressed_size": 2}, InvalidReferenceError, "together"),
        ({"compression": "lz4", "compressed_size": -2}, InvalidReferenceError, "negative"),
    ],
)
def test_a_reference_that_cannot_be_meant_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        ArrayRef(**{"path": "a.bin", "offset": 0, "shape": (2,), "dtype": "f8", **changes})


@given(
    st.integers(0, 2**62),
    st.lists(st.integers(0, 2**18), max_size=3),
    st.sampled_from(sorted(DTYPES)),
)
def test_small_numpy_integers_give_the_same_reference(offset, shape, name):
    ref = ArrayRef("a.bin", offset, tuple(shape), name)
    numpy_ref = ArrayRef("a.bin", np.uint64(offset), np.array(shape, np.uint32), DTYPES[name])
    assert ref == numpy_ref
    assert hash(ref) == hash(numpy_ref)
    assert type(numpy_ref.stop) is int


def test_a_narrow_offset_does_not_wrap():
    ref = ArrayRef("a.bin", np.uint32(16), (2**30 + 1,), "float64")
    assert ref.stop == 16 + 8 * (2**30 + 1)


def test_a_reference_is_frozen_and_pickles():
    ref = ArrayRef("a.bin", 8, (), "complex64", "lz4", 5)
    with pytest.raises(AttributeError):
        ref.offset = 0
    assert pickle.loads(pickle.dumps(ref)) == ref


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (BufferNotFoundError("no such buffer"), FileNotFoundError),
        (InvalidReferenceError("bad"), ValueError),
        (PayloadError("bad", [{"loc": ["a"], "msg": "m", "type": "t"}]), ValueError),
        (ComponentError("bad"), RuntimeError),
        (RemoteError("bad", 503), RuntimeError),
    ],
)
def test_errors_are_also_the_builtin_ones_and_cross_processes(error, builtin):
    assert isinstance(error, builtin)
    assert isinstance(error, BinrefError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
