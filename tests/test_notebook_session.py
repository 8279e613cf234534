"""The protocol, against a log instead of a browser: order, replacing, credits, dropping, parts."""

import base64
import gc
import threading
import time
import weakref

import numpy as np
import pytest
import xarray as xr

from binref_sci.notebook.colouring import colouring
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.session import MESSAGE_BYTES, Session
from tests.kit import until
from tests.playing import Log, still, telling, threads_of_players, want


class Gate:
    """Stands before the reading of frames: holds each until it is let through."""

    def __init__(self, scene):
        self.reading = []
        self.free = threading.Semaphore(0)
        self.open = False
        for panel in scene.panels:
            original = panel.reader.read

            def read(key, original=original):
                self.reading.append(key[0])
                if not self.open:
                    assert self.free.acquire(timeout=60)
                return original(key)

            object.__setattr__(panel, "reader", _With(panel.reader, read))


class _With:
    def __init__(self, reader, read):
        self._reader, self.read = reader, read
        self.runs, self.series = reader.runs, reader.series


@pytest.fixture
def sessions():
    made = []

    def start(obj=None, *, gated=False, **kwargs):
        obj = telling() if obj is None else obj
        scene = Scene.of(obj)
        log = Log()
        gate = Gate(scene) if gated else None
        sample = np.linspace(0, 200_000, 5)
        session = Session(log, scene, [colouring(sample)] * scene.colours, **kwargs)
        made.append((session, gate))
        return session, log, gate

    yield start
    for session, gate in made:
        if gate is not None:
            gate.open = True
            gate.free.release(100)
        session.close()


def indices(log):
    return [item["i"] for item, _ in log.frames()]


def codes_of(item, buffers):
    return np.frombuffer(buffers[0], "u1").reshape(item["shapes"][0])


def test_frames_come_in_the_order_of_the_list_and_nothing_else(sessions):
    session, log, _ = sessions()
    session.handle(want(1, [7, 3, 11, 4, 19]))
    until(lambda: len(log.frames()) == 5)
    still(lambda: len(log.messages))
    assert indices(log) == [7, 3, 11, 4, 19]
    assert [item["seq"] for item, _ in log.frames()] == [1, 2, 3, 4, 5]
    wanted = colouring(np.linspace(0, 200_000, 5))
    for item, buffers in log.frames():
        np.testing.assert_array_equal(
            codes_of(item, buffers), wanted.codes(telling()[item["i"]].values[::-1])
        )
        assert item["gen"] == 1
        assert item["ver"] == 0
        assert set(item["ms"]) == {"read", "enc"}


def test_frames_that_do_not_exist_are_passed_over(sessions):
    session, log, _ = sessions()
    session.handle(want(1, [-1, 20, 5, 10**9]))
    until(lambda: log.frames())
    still(lambda: len(log.messages))
    assert indices(log) == [5]


def test_no_more_are_on_their_way_than_there_is_credit(sessions):
    session, log, _ = sessions()
    session.handle(want(1, range(20), credit=3))
    until(lambda: len(log.frames()) == 3)
    still(lambda: len(log.frames()))
    session.handle(want(1, range(2, 20), credit=3, seen=2))  # frame 2 is still under way
    until(lambda: len(log.frames()) == 5)
    still(lambda: len(log.frames()))
    assert indices(log) == [0, 1, 2, 3, 4]
    session.handle(want(1, range(20), credit=0, seen=5))
    still(lambda: len(log.frames()))


def test_what_is_on_its_way_is_not_sent_twice_but_what_got_lost_is(sessions):
    session, log, _ = sessions()
    session.handle(want(1, [0, 1, 2]))
    until(lambda: len(log.frames()) == 3)
    session.handle(want(1, [0, 1, 2, 3]))
    until(lambda: len(log.frames()) == 4)
    still(lambda: len(log.frames()))
    assert indices(log) == [0, 1, 2, 3]
    # All four numbers have been seen, and frame 1 is asked for again: it had no room there.
    session.handle(want(1, [1], seen=4))
    until(lambda: len(log.frames()) == 5)
    assert indices(log)[-1] == 1
    assert session.stats()["hits"] == 1


def test_the_same_frame_in_another_view_or_format_is_another_frame(sessions):
    session, log, _ = sessions()
    session.handle(want(1, [4]))
    until(lambda: len(log.frames()) == 1)
    session.handle(want(2, [4], lod=2, id=1))
    until(lambda: len(log.frames()) == 2)
    session.handle(want(2, [4], fmt="f32"))
    until(lambda: len(log.frames()) == 3)
    assert [(item["view"], item["fmt"]) for item, _ in log.frames()] == [
        (0, "u8"),
        (1, "u8"),
        (0, "f32"),
    ]


def test_the_newest_list_replaces_the_one_before(sessions):
    session, log, gate = sessions(gated=True)
    session.handle(want(1, range(10), credit=4))
    until(lambda: gate.reading == [0])
    session.handle(want(2, [15], credit=4))
    gate.free.release(2)
    until(lambda: indices(log) == [15])
    still(lambda: len(log.messages))
    assert gate.reading == [0, 15]
    assert session.stats()["dropped"] == 1  # read, and no longer wanted: never encoded
    assert session.stats()["in_flight"] == 1


def test_of_a_thousand_jumps_the_last_is_what_is_shown(sessions):
    session, log, gate = sessions(gated=True)
    for gen in range(1, 1001):
        session.handle(want(gen, [gen % 20], credit=4))
    session.handle(want(1001, [13], credit=4))
    gate.open = True
    gate.free.release(5)
    until(lambda: indices(log) and indices(log)[-1] == 13)
    still(lambda: len(log.messages))
    assert len(gate.reading) <= 3
    assert log.frames()[-1][0]["gen"] == 1001


def test_a_frame_wanted_by_the_newer_list_too_is_kept(sessions):
    session, log, gate = sessions(gated=True)
    session.handle(want(1, [8, 9]))
    until(lambda: gate.reading == [8])
    session.handle(want(2, [9, 8]))
    gate.free.release(2)
    until(lambda: len(log.frames()) == 2)
    assert indices(log) == [8, 9]
    assert {item["gen"] for item, _ in log.frames()} == {2}


def test_a_list_for_other_limits_is_answered_once_it_knows_these(sessions):
    session, log, _ = sessions()
    session.recolour([colouring([0.0, 1.0])])
    assert session.ver == 1
    session.handle(want(1, [3], ver=0))
    still(lambda: len(log.messages))
    session.handle(want(1, [3], ver=1))
    until(lambda: log.frames())
    item, buffers = log.frames()[0]
    assert item["ver"] == 1
    assert (codes_of(item, buffers) == 255).all()


def test_small_frames_travel_together_large_ones_alone(sessions):
    session, log, _ = sessions()
    session.handle(want(1, range(9)))
    until(lambda: len(log.frames()) == 9)
    assert max(len(content["items"]) for content, _ in log.of("frames")) <= 4
    big = xr.DataArray(np.zeros((3, 600, 600), "f4"), dims=("time", "y", "x"))
    session, log, _ = sessions(big)
    session.handle(want(1, range(3)))
    until(lambda: len(log.frames()) == 3)
    assert [len(content["items"]) for content, _ in log.of("frames")] == [1, 1, 1]


def test_a_frame_of_more_than_a_message_comes_in_parts_of_whole_rows(sessions):
    rows, columns = 1100, 2048
    values = np.random.default_rng(1).random((2, rows, columns)).astype("f4")
    session, log, _ = sessions(xr.DataArray(values, dims=("time", "y", "x")))
    session.handle(want(1, [1], fmt="f32"))
    until(lambda: len(log.frames()) == 3)
    made = np.empty((rows, columns), "<f4")
    for item, (buffer,) in log.frames():
        assert len(buffer) <= MESSAGE_BYTES
        ((first, stop),) = item["rows"]
        made[first:stop] = np.frombuffer(buffer, "<f4").reshape(stop - first, columns)
        assert item["shapes"] == [[rows, columns]]
    assert {item["seq"] for item, _ in log.frames()} == {1}
    np.testing.assert_array_equal(made, values[1][::-1])


def test_who_has_a_message_finds_it_counted():
    seen = []

    def receive(content, buffers):
        if content["type"] == "frames":
            stats = session.stats()
            seen.append((stats["sent"], stats["sent_bytes"], stats["in_flight"]))

    session = Session(receive, Scene.of(telling()), [colouring([0.0, 2e5])])
    session.handle(want(1, [3], fmt="u8"))
    until(lambda: seen)
    session.close()
    assert seen == [(1, 48, 1)]


def test_every_panel_has_its_buffer(sessions):
    ds = xr.Dataset({"u": telling(), "v": telling() * 2})
    session, log, _ = sessions(ds)
    session.handle(want(1, [5, 6]))
    until(lambda: len(log.frames()) == 2)
    colours = colouring(np.linspace(0, 200_000, 5))
    for item, buffers in log.frames():
        for name, shape, buffer in zip(ds, item["shapes"], buffers, strict=True):
            np.testing.assert_array_equal(
                np.frombuffer(buffer, "u1").reshape(shape),
                colours.codes(ds[name][item["i"]].values[::-1]),
            )


class Broken:
    """Frame 3 cannot be read."""

    shape, dtype, ndim = (20, 6, 8), np.dtype("f8"), 3

    def __getitem__(self, key):
        if key[0] == 3:
            raise OSError("buffer 'a.bin' ends at byte 100, 200 were wanted")
        return telling().values[key]


def test_a_frame_that_cannot_be_read_is_told_once_and_the_film_goes_on(sessions):
    import dask.array as da

    lazy = telling().copy(data=da.from_array(Broken(), chunks=(1, 6, 8)))
    session, log, _ = sessions(lazy)
    session.handle(want(1, [2, 3, 4]))
    until(lambda: len(log.frames()) == 2)
    session.handle(want(1, [3, 5], seen=3))
    until(lambda: len(log.frames()) == 3)
    still(lambda: len(log.messages))
    assert indices(log) == [2, 4, 5]
    assert [(c["i"], c["text"]) for c, _ in log.of("error")] == [
        (3, "buffer 'a.bin' ends at byte 100, 200 were wanted")
    ]
    session.handle(want(2, [3], seen=4))  # asked anew, it is tried anew
    until(lambda: len(log.of("error")) == 2)


def test_bytes_go_as_text_where_buffers_do_not_arrive(sessions):
    session, log, _ = sessions()
    session.handle({"type": "ready"})
    (probe,) = until(lambda: log.of("probe"))
    assert probe[1] == [bytes(range(16))]
    session.handle({"type": "fallback"})
    session.handle(want(1, [2]))
    until(lambda: log.of("frames"))
    content, buffers = log.of("frames")[0]
    assert buffers == []
    codes = np.frombuffer(base64.b64decode(content["data"][0]), "u1").reshape(6, 8)
    assert codes.min() >= 2


def test_a_page_that_is_loaded_again_gets_its_frames(sessions):
    session, log, _ = sessions()
    session.handle(want(1, range(8), credit=2))
    until(lambda: len(log.frames()) == 2)
    session.handle({"type": "ready"})
    session.handle(want(1, [0, 1], credit=2))
    until(lambda: len(log.frames()) == 4)
    assert indices(log) == [0, 1, 0, 1]


def test_an_exact_value_is_told_with_its_place(sessions):
    values = np.zeros((2, 3, 4), "i8")
    values[1, 0, 3] = 2**60 + 1
    session, log, _ = sessions(xr.DataArray(values, dims=("time", "y", "x")))
    ask = {"type": "value", "id": 9, "i": 1, "panel": 0, "fx": 0.99, "fy": 0.99}
    session.handle(ask)
    (answer, _) = until(lambda: log.of("value"))[0]
    assert answer["exact"] == str(2**60 + 1)
    assert (answer["id"], answer["i"], answer["cell"]) == (9, 1, [2, 3])
    assert answer["text"] == "x = 3, y = 0"
    session.handle(ask | {"i": 99})
    (_, (answer, _)) = until(lambda: log.of("value")[1:] and log.of("value"))
    assert answer["value"] is None
    assert "frame 99" in answer["text"]


def test_the_x_of_lines_is_told_once(sessions):
    session, log, _ = sessions(telling().isel(y=0))
    session.handle({"type": "ready"})
    _content, buffers = until(lambda: log.of("coords"))[0]
    np.testing.assert_array_equal(np.frombuffer(buffers[0], "<f8"), 2.0 * np.arange(8))
    session.handle(want(1, [3], fmt="f32", window=[0, 0.5, 0, 1]))
    item, buffers = until(log.frames)[0]
    assert item["shapes"] == [[1, 4]]
    np.testing.assert_array_equal(
        np.frombuffer(buffers[0], "<f4"), telling()[3, 0, :4].values.astype("f4")
    )


def test_only_the_sessions_thread_reads_and_sends(sessions):
    session, log, _ = sessions()
    threads = []
    panel = session.scene.panels[0]
    original = panel.reader.read
    object.__setattr__(
        panel,
        "reader",
        _With(
            panel.reader,
            lambda key: threads.append(threading.current_thread()) or original(key),
        ),
    )
    session.handle({"type": "ready"})
    session.handle(want(1, range(5)))
    until(lambda: len(log.frames()) == 5)
    assert {thread.name for thread in threads} == {"binref-player"}
    assert log.threads == set(threads)


def test_two_threads_seek_while_a_third_closes():
    others = threads_of_players()
    for turn in range(20):
        log = Log()
        session = Session(log, Scene.of(telling()), [colouring([0.0, 2e5])])
        errors, stop = [], threading.Event()

        def seek(start, session=session, errors=errors, stop=stop):
            gen = start
            try:
                while not stop.is_set():
                    gen += 2
                    session.handle(want(gen, [gen % 20, 3], seen=session.sent))
                    session.handle({"type": "value", "id": 1, "i": 3, "panel": 0, "fx": 0, "fy": 0})
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=seek, args=(start,)) for start in (0, 1)]
        for thread in threads:
            thread.start()
        time.sleep(0.002 * turn)
        session.close()
        count = len(log.messages)
        time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert errors == []
        assert len(log.messages) == count  # after close nothing is sent
        session.close()  # once more is no error
    assert threads_of_players() <= others


def test_closing_lets_go_of_the_data():
    field = telling()
    scene = Scene.of(field)
    log = Log()
    session = Session(log, scene, [colouring([0.0, 1.0])])
    session.handle(want(1, range(4)))
    until(lambda: len(log.frames()) == 4)
    data = weakref.ref(field)
    session.close()
    del field, scene
    gc.collect()
    assert data() is None
    with pytest.raises(RuntimeError, match="has been closed"):
        _ = session.scene


def test_what_goes_wrong_in_a_task_is_told_and_work_goes_on(sessions):
    session, log, _ = sessions()

    def fail():
        raise ValueError("no such limits")

    session.do(fail)
    session.handle(want(1, [1]))
    until(log.frames)
    assert log.of("error")[0][0]["text"] == "no such limits"


def test_something_long_gives_way_to_frames(sessions):
    session, log, _ = sessions()
    stop = threading.Event()
    steps = []

    def long():
        while not stop.is_set():
            steps.append(1)
            time.sleep(0.001)
            yield

    session.later(long())
    until(lambda: len(steps) > 3)
    for gen in range(1, 10):
        session.handle(want(gen, [gen], seen=gen))
        until(lambda gen=gen: indices(log)[-1:] == [gen])
    stop.set()


def test_messages_that_are_none_are_refused(sessions):
    session, _, _ = sessions()
    assert session.handle({"type": "nonsense"}) is False
    with pytest.raises(KeyError):
        session.handle({"type": "want", "gen": 1})
