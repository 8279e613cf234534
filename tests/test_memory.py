"""Memory to read into."""

import numpy as np
import pytest

from binref_sci import BinrefArray
from binref_sci.memory import LARGE, empty, page_aligned


@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (513, 700), (LARGE,), (2**21, 9)])
@pytest.mark.parametrize("kind", [empty, page_aligned])
def test_it_is_an_array_like_any_other(kind, shape, dtype):
    made = kind(shape, dtype)
    assert (made.shape, made.dtype) == (shape, np.dtype(dtype))
    assert made.flags.c_contiguous
    assert made.flags.writeable
    made[...] = 1
    assert made.sum() == made.size
    if made.nbytes >= LARGE or kind is page_aligned:
        assert made.ctypes.data % 4096 == 0


def test_much_that_is_read_begins_with_a_page(tmp_path):
    wanted = np.random.default_rng(1).normal(size=(1500, 1500))
    stored = BinrefArray.write(wanted, output_path=tmp_path)
    for found in (stored.load(), stored[10:], np.asarray(stored)):
        assert found.ctypes.data % 4096 == 0
        np.testing.assert_array_equal(found, wanted[-len(found) :])


def test_what_no_memory_can_hold_is_told():
    with pytest.raises((MemoryError, ValueError)):
        empty((2**62,), "float64")
    with pytest.raises((MemoryError, ValueError)):
        page_aligned((2**62,), "float64")
