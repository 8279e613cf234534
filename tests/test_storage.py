import errno
import os
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from binref_sci.errors import BufferNotFoundError, InvalidReferenceError, TruncatedBufferError
from binref_sci.storage import (
    OpenBuffer,
    confine,
    create_buffer,
    discard,
    identity,
    kept_whole,
    open_buffer,
    read_into,
    read_into_many,
    require,
    status_of,
    taking_place,
    write_at,
    write_atomically,
)
from binref_sci.storage.mounts import filesystem_of
from tests.kit import descriptors_at_rest, open_descriptors


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    (made / "a").mkdir(parents=True)
    (made / "b.bin").write_bytes(b"inside!!")
    (tmp_path / "outside.bin").write_bytes(b"outside!")
    (tmp_path / "root_sibling").mkdir()
    (tmp_path / "root_sibling" / "x.bin").write_bytes(b"sibling!")
    return made


OUTSIDE = [
    "..",
    "../outside.bin",
    "../root_sibling/x.bin",
    "a/../../outside.bin",
    "a/../..",
    "/etc/passwd",
    "//etc/passwd",
    "link.bin",
    "folder/outside.bin",
    "folder/root_sibling/x.bin",
    "file:///etc/passwd",
    "http://127.0.0.1/x.bin",
    "s3://bucket/x.bin",
    "a\0b.bin",
    "",
    ".",
    "a/..",
    "..\\outside.bin",
    "C:\\x.bin",
    "\ud800.bin",
]


@pytest.mark.parametrize("path", OUTSIDE, ids=ascii)
def test_a_path_that_leads_outside_is_refused_before_anything_is_opened(root, path):
    (root / "link.bin").symlink_to(root.parent / "outside.bin")
    (root / "folder").symlink_to(root.parent)
    for look in (confine, status_of, identity):
        with pytest.raises(InvalidReferenceError):
            look(root, path)
    with pytest.raises(InvalidReferenceError), open_buffer(root, path):
        pass


def test_a_link_to_the_root_itself_does_not_open_it(root):
    (root / "self").symlink_to(root)
    assert confine(root, "self/b.bin") == os.fspath(root / "b.bin")
    with pytest.raises(InvalidReferenceError):
        confine(root, "self")


@pytest.mark.parametrize(
    "path", ["b.bin", "a/../b.bin", "./b.bin", "nowhere/../b.bin", "a//../b.bin"]
)
def test_a_path_inside_is_followed(root, path):
    assert confine(root, path) == os.fspath(root / "b.bin")
    with open_buffer(root, path) as buffer:
        assert buffer.size == 8


def test_names_with_colons_and_dots_are_names(root):
    for name in ("run:42", "..b.bin", "...", "http:", "a:b/..c"):
        assert confine(root, name) == os.fspath(root / name)


def test_the_root_may_be_a_link(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    assert confine(tmp_path / "alias", "b.bin") == os.fspath(root / "b.bin")


def test_a_link_inside_may_stay_inside(root):
    (root / "a" / "c.bin").symlink_to("../b.bin")
    assert status_of(root, "a/c.bin").st_size == 8


@pytest.mark.parametrize(
    "kind", ["missing", "folder", "fifo", "socket", "loop", "long", "below a file"]
)
def test_what_is_no_file_is_not_found(root, kind, monkeypatch):
    name = "n" * 300 if kind == "long" else "b.bin/c" if kind == "below a file" else "odd"
    if kind == "folder":
        (root / name).mkdir()
    elif kind == "fifo":
        os.mkfifo(root / name)
    elif kind == "socket":
        monkeypatch.chdir(root)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    elif kind == "loop":
        (root / name).symlink_to(name)
    before = descriptors_at_rest()
    with pytest.raises(BufferNotFoundError, match=name[:3]):
        status_of(root, name)
    with pytest.raises(BufferNotFoundError, match=name[:3]), open_buffer(root, name):
        pass
    assert open_descriptors() == before


def test_a_status_is_that_of_the_file_as_it_is_now(root):
    assert status_of(root, "b.bin").st_size == 8
    (root / "b.bin").write_bytes(b"longer than before")
    assert status_of(root, "b.bin").st_size == 18
    (root / "b.bin").unlink()
    with pytest.raises(BufferNotFoundError):
        status_of(root, "b.bin")
    (root / "b.bin").symlink_to(root.parent / "outside.bin")
    with pytest.raises(InvalidReferenceError):
        status_of(root, "b.bin")
    (root / "b.bin").unlink()
    os.mkfifo(root / "b.bin")
    with pytest.raises(BufferNotFoundError):
        status_of(root, "b.bin")


def test_the_identity_changes_when_a_file_is_replaced(root):
    before = identity(root, "b.bin")
    assert identity(root, "b.bin") == before
    (root / "new.bin").write_bytes(b"INSIDE!!")
    (root / "new.bin").replace(root / "b.bin")
    assert identity(root, "b.bin") != before


def test_short_data_is_an_error_with_file_offset_needed_and_found(root):
    with open_buffer(root, "b.bin") as buffer:
        words = r"b\.bin' holds 8 bytes, but bytes 4 to 12 are needed"
        with pytest.raises(TruncatedBufferError, match=words):
            require(buffer, 4, 8)
        with pytest.raises(TruncatedBufferError, match=words):
            read_into(buffer, 4, np.empty(8, np.uint8))
        with pytest.raises(TruncatedBufferError):
            read_into_many(buffer, 4, [np.empty(2, np.uint8), np.empty(8, np.uint8)])
        for offset, nbytes in ((-1, 2), (2, -1), (2**70, 0)):
            with pytest.raises(TruncatedBufferError):
                require(buffer, offset, nbytes)


@pytest.mark.parametrize("name", ["float16", "complex128", "bool", "int8"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_bytes_go_out_and_come_back(tmp_path, name, shape):
    data = np.ones(shape, name)
    buffer_name, fd = create_buffer(tmp_path)
    write_at(fd, data, 5)
    os.close(fd)
    made = np.zeros(shape, name)
    with open_buffer(tmp_path, buffer_name) as buffer:
        read_into(buffer, 5, made)
    np.testing.assert_array_equal(made, data)


def test_more_pieces_than_one_system_call_takes_are_read(tmp_path):
    data = np.arange(5000, dtype="u2")
    (tmp_path / "x.bin").write_bytes(b"!" + data.tobytes())
    pieces = [np.empty(2, "u2") for _ in range(2500)]
    with open_buffer(tmp_path, "x.bin") as buffer:
        read_into_many(buffer, 1, pieces)
    np.testing.assert_array_equal(np.concatenate(pieces), data)


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path):
    target = tmp_path / "run.json"
    write_atomically(target, iter([b"old"]), sync=True)

    def pieces():
        yield b"half of the "
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, pieces())
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_what_is_discarded_is_gone_though_somebody_makes_it_anew(tmp_path, monkeypatch):
    made, left = tmp_path / "made", list(range(5))

    def meanwhile(seconds):
        if left:  # a thread that finishes the chunk that it is at
            made.mkdir()
            (made / f"chunk-{left.pop()}").write_bytes(b"")

    monkeypatch.setattr(time, "sleep", meanwhile)
    discard(made)  # there is nothing
    assert len(left) == 5
    made.mkdir()
    discard(made)
    assert not left
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="mounts as Linux tells them")
@pytest.mark.parametrize(("path", "kind"), [("/proc/self/environ", "proc"), ("/sys", "sysfs")])
def test_the_file_system_of_an_open_file(path, kind):
    fd = os.open(path, os.O_RDONLY)
    assert filesystem_of(fd) == kind
    os.close(fd)
    assert not filesystem_of(fd)


@pytest.mark.skipif(sys.platform != "linux", reason="leases are Linux's")
def test_a_file_is_kept_only_where_nobody_changes_it_from_behind(tmp_path):
    # Linux gives a lease on a file of /proc too, as it does on FUSE, and it keeps nothing there.
    Path(tmp_path, "x.bin").write_bytes(b"here")
    with open_buffer(tmp_path, "x.bin") as buffer, kept_whole(buffer) as is_kept:
        assert is_kept()
    with open("/proc/self/environ", "rb") as file:
        buffer = OpenBuffer.of(file.fileno(), file.name)
        with kept_whole(buffer) as is_kept:
            assert not is_kept()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_replaced_is_there_until_the_new_is(tmp_path, kind):
    def file_of(place):
        return place / "inside" if kind == "folder" else place

    def make(place, content):
        file_of(place).parent.mkdir(exist_ok=True)
        file_of(place).write_text(content)
        assert content != "unfinished"

    place = tmp_path / "x.zarr"
    make(place, "old")
    with pytest.raises(FileNotFoundError), taking_place(place):
        pass  # nothing is made
    with pytest.raises(AssertionError), taking_place(place) as partial:
        make(partial, "unfinished")
    assert file_of(place).read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]
    with taking_place(place) as partial:
        make(partial, "new")
        assert file_of(place).read_text() == "old"
    assert file_of(place).read_text() == "new"
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.skipif(sys.platform != "linux", reason="a file that cannot be read, of Linux")
@pytest.mark.parametrize("read", [read_into, lambda *given: read_into_many(*given[:2], [given[2]])])
def test_a_file_that_the_system_cannot_read_is_named(read):
    with (
        open("/proc/self/mem", "rb") as file,
        pytest.raises(OSError, match="'/proc/self/mem'") as failed,
    ):
        read(OpenBuffer.of(file.fileno(), file.name), 0, np.empty(8, np.uint8))
    assert failed.value.errno == errno.EIO
