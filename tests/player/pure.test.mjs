// Parts of the player that need no page, under Node's own test runner.

import assert from "node:assert/strict";
import { test } from "node:test";

import { kernelState } from "../../binref_sci/notebook/browser/model/kernel.js";
import {
  Parts,
  buffersOf,
  bytesOf,
  intact,
  numbersOf,
} from "../../binref_sci/notebook/browser/pure/bytes.js";
import { FrameCache, coverage } from "../../binref_sci/notebook/browser/pure/cache.js";
import { Clock } from "../../binref_sci/notebook/browser/pure/clock.js";
import { colour, tables } from "../../binref_sci/notebook/browser/pure/colours.js";
import { commandOf, speedOf } from "../../binref_sci/notebook/browser/pure/keys.js";
import { distance, following, markedPart, upcoming } from "../../binref_sci/notebook/browser/pure/order.js";
import { Rate, RoundTrip, credits, skipOf } from "../../binref_sci/notebook/browser/pure/rates.js";
import { axisTicks, sparse, ticksOf } from "../../binref_sci/notebook/browser/pure/ticks.js";
import { nearestIn } from "../../binref_sci/notebook/browser/pure/times.js";
import { inside, lodOf, zoomed } from "../../binref_sci/notebook/browser/pure/windows.js";
import { format, percent, simulated, spoken, unitOf } from "../../binref_sci/notebook/browser/pure/words.js";
import { EmbeddedFrames } from "../../binref_sci/notebook/browser/page/embedded.js";
import { StubModel } from "../../binref_sci/notebook/browser/page/stub.js";

/** Indices shown in `count` steps from `index`. */
function walk(index, direction, order, count) {
  const shown = [];
  let at = { index, direction, ended: false };
  for (let k = 0; k < count && !at.ended; k += 1) {
    at = following(at.index, at.direction, order);
    if (!at.ended) shown.push(at.index);
  }
  return shown;
}

test("once stops at the end, loop begins again, bounce turns", () => {
  const order = { n: 4, stride: 1 };
  assert.deepEqual(walk(1, 1, { ...order, loop: "once" }, 9), [2, 3]);
  assert.deepEqual(walk(1, 1, { ...order, loop: "loop" }, 5), [2, 3, 0, 1, 2]);
  assert.deepEqual(walk(1, 1, { ...order, loop: "bounce" }, 7), [2, 3, 2, 1, 0, 1, 2]);
});

test("backwards and with a stride every loop shows the same frames", () => {
  assert.deepEqual(walk(0, -1, { n: 3, stride: 1, loop: "loop" }, 4), [2, 1, 0, 2]);
  assert.deepEqual(walk(0, 1, { n: 10, stride: 4, loop: "loop" }, 5), [4, 8, 0, 4, 8]);
  assert.deepEqual(walk(8, 1, { n: 10, stride: 4, loop: "bounce" }, 4), [4, 0, 4, 8]);
});

test("a part is played round and round, from wherever the playhead is", () => {
  const part = { n: 20, stride: 1, first: 5, last: 8 };
  assert.deepEqual(walk(6, 1, { ...part, loop: "loop" }, 5), [7, 8, 5, 6, 7]);
  assert.deepEqual(walk(6, -1, { ...part, loop: "bounce" }, 5), [5, 6, 7, 8, 7]);
  assert.deepEqual(walk(6, 1, { ...part, loop: "once" }, 5), [7, 8]);
  assert.deepEqual(walk(15, 1, { ...part, loop: "loop" }, 3), [5, 6, 7]);
  assert.deepEqual(upcoming(7, 1, { ...part, loop: "loop" }, 9), [8, 5, 6]);
  // what is outside of the part is given up first, unless somebody looks at it
  assert.ok(distance(9, 7, 1, 20, "loop", 5, 8) > distance(6, 7, 1, 20, "loop", 5, 8));
  assert.equal(distance(12, 12, 1, 20, "loop", 5, 8), 0);
});

test("marking a part: its start, its end, whichever comes first", () => {
  assert.deepEqual(markedPart([], "in", 4, 10), [4, 9]);
  assert.deepEqual(markedPart([4, 9], "out", 7, 10), [4, 7]);
  assert.deepEqual(markedPart([], "out", 7, 10), [0, 7]);
  assert.deepEqual(markedPart([4, 7], "in", 8, 10), [8, 9]);
  assert.deepEqual(markedPart([4, 7], "out", 2, 10), [0, 2]);
  assert.deepEqual(markedPart([4, 9], "in", 0, 10), []);
});

test("the nearest time is found in either order", () => {
  const rising = Float64Array.from([0, 1, 4, 9, 16]);
  const falling = rising.toReversed();
  for (const value of [-3, 0, 0.4, 0.6, 3, 8.9, 15, 99]) {
    const best = (times) => times.reduce((at, time, k) => (Math.abs(time - value) < Math.abs(times[at] - value) ? k : at), 0);
    assert.equal(nearestIn(rising, value), best(rising));
    assert.equal(nearestIn(falling, value), best(falling));
  }
  assert.equal(nearestIn([5], 7), 0);
});

test("simulated time a second is told in a unit that people use", () => {
  assert.deepEqual(
    [[5, "s"], [600, "s"], [864000, "s"], [0.001, "s"], [3e7, "s"], [2, "K"], [NaN, "s"]].map((one) => simulated(...one)),
    ["5 s/s", "10 min/s", "10 d/s", "0.001 s/s", "347 d/s", "2 K/s", ""],
  );
});

test("a kernel is busy, or gone, as far as the host tells", () => {
  assert.equal(kernelState(undefined, 0), "");
  assert.equal(kernelState(undefined, 9e4), "busy");
  assert.equal(kernelState({ status: "busy" }, 9e4), "busy");
  assert.equal(kernelState({ status: "idle" }, 1000), "busy");
  assert.equal(kernelState({ status: "idle" }, 9e4), "gone"); // it has nothing to do, and no answer
  assert.equal(kernelState({ status: "dead" }, 0), "gone");
  assert.equal(kernelState({ status: "busy", connectionStatus: "disconnected" }, 0), "gone");
  assert.equal(kernelState(null, 0), "gone");
});

test("a run of one frame does not hang", () => {
  for (const loop of ["once", "loop", "bounce"]) {
    const next = following(0, 1, { n: 1, loop, stride: 1 });
    assert.equal(next.index, 0);
    assert.deepEqual(upcoming(0, 1, { n: 1, loop, stride: 1 }, 10), []);
  }
});

test("the frames to come are those that will be shown, each once", () => {
  for (const loop of ["once", "loop", "bounce"]) {
    for (const direction of [1, -1]) {
      for (const [n, stride, index] of [[7, 1, 3], [12, 5, 2], [30, 7, 29], [2, 3, 0]]) {
        const order = { n, stride, loop };
        const shown = [...new Set(walk(index, direction, order, 4 * n))].filter((i) => i !== index);
        assert.deepEqual(upcoming(index, direction, order, 1000), shown, JSON.stringify({ order, index, direction }));
        assert.deepEqual(upcoming(index, direction, order, 2), shown.slice(0, 2));
      }
    }
  }
});

test("the clock keeps the mean rate on a display that is not exact", () => {
  for (const [fps, display] of [[20, 60], [30, 60], [60, 59.94], [24, 60], [50, 60], [60, 144]]) {
    const clock = new Clock();
    let steps = 0;
    for (let k = 0; k <= display * 10; k += 1) {
      const jitter = Math.sin(k * 12.9898) * 2;
      clock.tick((k * 1000) / display + jitter, fps);
      const due = Math.min(1, clock.due);
      clock.take(due);
      steps += due;
    }
    const expected = Math.min(fps, display) * 10;
    assert.ok(Math.abs(steps - expected) <= expected * 0.015 + 1, `${fps} on ${display}: ${steps}`);
  }
});

test("waiting is not followed by a rush, nor is a page that slept", () => {
  const clock = new Clock();
  clock.tick(0, 60);
  clock.tick(900, 60);
  assert.ok(clock.due > 40);
  clock.take(0);
  assert.equal(clock.due, 1);
  clock.tick(60_000, 60);
  assert.equal(clock.due, 1);
});

const frame = (bytes) => ({ bytes });

test("the cache stays below its limit and gives up the farthest", () => {
  const limit = 100 * (1000 + 256);
  const cache = new FrameCache(limit);
  const where = { index: 500, direction: 1, n: 1000, loop: "once", kept: [1] };
  for (let i = 0; i < 1000; i += 1) {
    cache.put(1, i, frame(1000));
    cache.evict(where);
    assert.ok(cache.bytes <= limit);
  }
  for (let i = 0; i < 1000; i += 1) cache.put(1, i, frame(1000));
  cache.evict(where);
  const kept = [...cache.indices(1)].sort((a, b) => a - b);
  assert.ok(kept.includes(500));
  const [first, last] = [kept[0], kept.at(-1)];
  assert.equal(last - first + 1, kept.length, "one run of neighbours");
  const behind = (500 - first) / kept.length;
  assert.ok(behind > 0.2 && behind < 0.3, `a quarter lies behind: ${behind}`);
});

test("direction turns the side that is kept; other views go first", () => {
  const cache = new FrameCache(40 * (1000 + 256));
  for (let i = 0; i < 100; i += 1) cache.put(1, i, frame(1000));
  cache.evict({ index: 50, direction: -1, n: 100, loop: "once", kept: [1] });
  const kept = [...cache.indices(1)];
  assert.ok(kept.filter((i) => i < 50).length > 2 * kept.filter((i) => i > 50).length);
  for (let i = 0; i < 30; i += 1) cache.put(2, i, frame(1000));
  cache.evict({ index: 50, direction: -1, n: 100, loop: "once", kept: [1] });
  assert.equal([...cache.indices(2)].length < 5, true);
});

test("in a loop the frames after the end are near", () => {
  assert.equal(distance(0, 99, 1, 100, "loop"), 1);
  assert.equal(distance(98, 99, 1, 100, "loop"), 3);
  assert.equal(distance(0, 99, 1, 100, "once"), 297);
  assert.equal(distance(99, 0, -1, 100, "loop"), 1);
});

test("replacing and clearing keep the count of bytes", () => {
  const cache = new FrameCache(1e9);
  cache.put(1, 3, frame(10));
  cache.put(1, 3, frame(30));
  assert.equal(cache.bytes, 30 + 256);
  assert.equal(cache.count, 1);
  cache.clear();
  assert.equal(cache.bytes, 0);
});

test("the nearest frame stands in, one that failed does not", () => {
  const cache = new FrameCache(1e9);
  cache.put(1, 10, { bytes: 1, i: 10 });
  cache.put(2, 18, { bytes: 1, i: 18 });
  assert.equal(cache.nearest([1, 2], 15).i, 18);
  assert.equal(cache.nearest([1], 15).i, 10);
  assert.equal(cache.nearest([3], 15), undefined);
});

test("the bar shows the share of each piece that is cached", () => {
  assert.deepEqual([...coverage([0, 1, 5], 6, 3)], [1, 0, 0.5]);
  assert.deepEqual([...coverage([1], 2, 4)], [0, 0, 1, 1]);
  const all = coverage(Array.from({ length: 1000 }, (_, k) => k), 1000, 77);
  assert.ok(all.every((share) => Math.abs(share - 1) < 1e-4));
});

test("credits: four at rest; in play two round trips' worth and eight, or one and two where frames can be late", () => {
  const size = 512 * 512;
  assert.equal(credits({ playing: false, rtt: 500, fps: 60, bytes: size }), 4);
  assert.equal(credits({ playing: true, every: true, rtt: 100, fps: 20, bytes: size }), 12);
  assert.equal(credits({ playing: true, every: false, rtt: 100, fps: 20, bytes: size }), 4);
  assert.equal(credits({ playing: true, rtt: 2000, fps: 60, bytes: size }), 16);
  assert.equal(credits({ playing: true, rtt: 2000, fps: 60, bytes: 4e6 }), 2);
  assert.equal(credits({ playing: true, rtt: 2000, fps: 60, bytes: 64e6 }), 1);
  assert.equal(credits({ playing: false, rtt: 20, fps: 60, bytes: 1024 * 1024 }), 1);
});

test("the round trip is the least of the last, so that waiting in line does not add credits", () => {
  const trip = new RoundTrip();
  for (const ms of [10, 80, 300, 300]) trip.add(ms);
  assert.equal(trip.ms, 10);
  for (let k = 0; k < 16; k += 1) trip.add(70);
  assert.equal(trip.ms, 70);
});

test("rates and gaps", () => {
  const rate = new Rate();
  for (let k = 0; k < 100; k += 1) rate.add(k * 20);
  assert.ok(Math.abs(rate.perSecond(2000) - 50) < 0.5);
  assert.equal(rate.gap95(), 20);
  assert.equal(rate.perSecond(10_000), 0);
  assert.equal(skipOf(30, 10), 3);
  assert.equal(skipOf(30, 30), 1);
  assert.equal(skipOf(30, 0), 1);
});

test("the probe finds what a host breaks", () => {
  const bytes = Uint8Array.from({ length: 16 }, (_, k) => k);
  assert.ok(intact([new DataView(bytes.buffer)]));
  assert.ok(intact([bytes.buffer]));
  assert.ok(!intact([]));
  assert.ok(!intact(undefined));
  assert.ok(!intact([new DataView(bytes.buffer, 0, 12)]));
  assert.ok(!intact(["AAECAw=="]));
  assert.ok(!intact([bytes.map((byte) => (byte === 9 ? 63 : byte))]));
});

test("bytes come without a copy, numbers whatever their alignment", () => {
  const floats = Float64Array.from([1.5, -2, NaN]);
  const shifted = new Uint8Array(25);
  shifted.set(new Uint8Array(floats.buffer), 1);
  assert.deepEqual(numbersOf(Float64Array, bytesOf(new DataView(shifted.buffer, 1))), floats);
  const small = bytesOf(new DataView(new ArrayBuffer(1000), 10, 20));
  assert.equal(small.buffer.byteLength, 20, "a piece does not hold the message");
  const whole = new ArrayBuffer(30);
  assert.equal(bytesOf(new DataView(whole)).buffer, whole);
});

test("base64 text stands for buffers where a host has none", () => {
  const text = Buffer.from([0, 128, 255]).toString("base64");
  assert.deepEqual(buffersOf({ data: [text] }, []), [Uint8Array.from([0, 128, 255])]);
});

test("parts of a frame are put together, whatever their order", () => {
  const parts = new Parts();
  const item = { ver: 1, view: 1, i: 4, fmt: "u8", shapes: [[3, 2]] };
  assert.equal(parts.add({ ...item, rows: [[1, 3]] }, [Uint8Array.from([3, 4, 5, 6])], 1), null);
  const whole = parts.add({ ...item, rows: [[0, 1]] }, [Uint8Array.from([1, 2])], 1);
  assert.deepEqual(whole, [Uint8Array.from([1, 2, 3, 4, 5, 6])]);
  const buffers = [new Uint8Array(6)];
  assert.equal(parts.add(item, buffers, 1), buffers);
});

test("codes become the table's colours, byte for byte", () => {
  const bytes = Uint8Array.from({ length: 2048 }, (_, k) => (k * 7 + Math.floor(k / 1024)) % 256);
  const all = tables(new DataView(bytes.buffer));
  assert.equal(all.length, 2);
  const image = new Uint8ClampedArray(256 * 4);
  colour(Uint8Array.from({ length: 256 }, (_, k) => k), all[1], new Uint32Array(image.buffer));
  assert.deepEqual([...image], [...bytes.slice(1024)]);
  assert.deepEqual(tables(null), []);
});

test("level of detail: no fewer cells than pixels", () => {
  assert.equal(lodOf(4096, 4096, null, 900, 900, 1), 4);
  assert.equal(lodOf(4096, 4096, null, 900, 900, 2), 2);
  assert.equal(lodOf(4096, 4096, [0.5, 0.5, 0.75, 0.75], 900, 900, 1), 1);
  assert.equal(lodOf(100, 100, null, 900, 900, 1), 1);
  assert.equal(lodOf(100, 9000, null, 900, 900, 1), 1);
});

test("zooming keeps the point under the pointer and stays inside", () => {
  const [left, top, right, bottom] = zoomed(null, 0.25, 0.75, 0.5);
  assert.ok(Math.abs(left + 0.25 * (right - left) - 0.25) < 1e-12);
  assert.ok(Math.abs(top + 0.75 * (bottom - top) - 0.75) < 1e-12);
  assert.equal(zoomed([0.1, 0.1, 0.6, 0.6], 0, 0, 4), null);
  assert.deepEqual(inside([-0.25, 0.75, 0.25, 1.25]), [0, 0.5, 0.5, 1]);
});

test("numbers are short, with a real minus sign", () => {
  assert.deepEqual(
    [0, 1.5, -2, 1e-7, 123456789, 0.1 + 0.2, NaN, null, -Infinity].map((value) => format(value)),
    ["0", "1.5", "−2", "1e−7", "1.23457e8", "0.3", "no data", "no data", "−∞"],
  );
});

test("ticks are round, inside, and tell their neighbours apart", () => {
  assert.deepEqual(ticksOf(0, 4, 4).map(([, label]) => label), ["0", "1", "2", "3", "4"]);
  assert.deepEqual(ticksOf(0, 1, 5)[1], [0.2, "0.2"]);
  assert.deepEqual(ticksOf(-1, 1, 4).map(([, label]) => label), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
  assert.deepEqual(ticksOf(4, 0, 4).map(([at]) => at), [0, 0.25, 0.5, 0.75, 1]);
  for (const [lo, hi] of [[1000.001, 1000.002], [0, 1e-9], [-3e8, 5e8], [1e12, 1e12 + 5], [270.15, 310], [5, -7]]) {
    const ticks = ticksOf(lo, hi, 6);
    assert.ok(ticks.length >= 2 && ticks.length <= 14, `${lo}..${hi}: ${ticks}`);
    assert.equal(new Set(ticks.map(([, label]) => label)).size, ticks.length, `${lo}..${hi}: ${ticks}`);
    assert.ok(ticks.every(([at]) => at > -1e-6 && at < 1 + 1e-6));
    assert.deepEqual(ticks.map(([at]) => at), ticks.map(([at]) => at).sort((a, b) => a - b));
  }
  assert.deepEqual(ticksOf(1, 1, 5), []);
  assert.deepEqual(ticksOf(NaN, 1, 5), []);
});

test("given ticks follow the window, crowded labels are left out", () => {
  const axis = { ticks: [[0, "a"], [0.5, "b"], [1, "c"]] };
  assert.deepEqual(axisTicks(axis, 0.25, 0.75, 5), [[0.5, "b"]]);
  const many = Array.from({ length: 11 }, (_, k) => [k / 10, "1234"]);
  assert.equal(sparse(many, 100, () => 30).length < 5, true);
  assert.equal(sparse(many, 1000, () => 30).length, 11);
});

test("the slider says step and time", () => {
  assert.equal(spoken(40, 600, "t = 12.3 s"), "step 41 of 600, t = 12.3 s");
  assert.equal(spoken(0, 1, ""), "step 1 of 1");
  assert.equal(unitOf("temperature [K]"), "K");
  assert.equal(unitOf("index"), "");
  assert.deepEqual([0, 0.0004, 0.021, 0.5].map(percent), ["0 %", "<0.1 %", "2.1 %", "50 %"]);
});

test("keys: only without Ctrl, Alt and Meta", () => {
  const key = (name, more = {}) => commandOf({ key: name, ...more });
  assert.equal(key(" "), "play");
  assert.equal(key("ArrowRight"), "forward");
  assert.equal(key("ArrowRight", { shiftKey: true }), "forward10");
  assert.equal(key("L"), "loop");
  assert.equal(key("l"), "loop");
  assert.equal(key("?", { shiftKey: true }), "help");
  assert.equal(key("c", { ctrlKey: true }), null);
  assert.equal(key("s", { metaKey: true }), null);
  assert.equal(key("z"), null);
  assert.equal(key("["), "in");
  assert.equal(key("]", { ctrlKey: true, altKey: true }), "out"); // AltGr
  assert.equal(key("constructor"), null);
  assert.equal(speedOf(20, 1), 24);
  assert.equal(speedOf(1, -1), 1);
  assert.equal(speedOf(120, 1), 120);
});

// --- the model without a kernel ---

const waited = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const view = { id: 1, window: null, lod: 1, reduce: "stride" };
const want = (idx, more = {}) => ({ type: "want", gen: 1, ver: 0, view, idx, fmt: "u8", seen: 0, credit: 4, ...more });

/** Wait for `count` items, and then for more that should not come. */
async function arrived(items, count) {
  for (let k = 0; k < 500 && items.length < count; k += 1) await waited(10);
  await waited(60);
  return items.map(({ i }) => i);
}

function collecting(model) {
  const items = [];
  model.on("msg:custom", (content) => items.push(...(content.items ?? [])));
  return items;
}

test("the stub sends what is wanted, in order, within the credit, and nothing twice in flight", async () => {
  const source = { frame: (i) => ({ item: { shapes: [[1, 1]] }, buffers: [Uint8Array.of(i)] }) };
  const model = new StubModel({}, source);
  const items = collecting(model);
  model.send(want([5, 6, 7, 8, 9], { credit: 3 }));
  assert.deepEqual(await arrived(items, 3), [5, 6, 7]);
  model.send(want([6, 7, 8, 9], { credit: 3, seen: 1 }));
  assert.deepEqual(await arrived(items, 4), [5, 6, 7, 8]);
  assert.deepEqual(items.map(({ seq }) => seq), [1, 2, 3, 4]);
});

test("a newer want replaces the older at once", async () => {
  const source = {
    frame: async (i) => {
      model.send(want([50], { gen: 2 })); // while the first is being read
      await waited(40);
      return { item: {}, buffers: [Uint8Array.of(i)] };
    },
  };
  const model = new StubModel({}, source);
  const items = collecting(model);
  model.send(want([1, 2, 3, 4]));
  assert.deepEqual(await arrived(items, 2), [1, 50]);
});

test("embedded frames are inflated into one buffer a panel", async () => {
  const { deflateSync } = await import("node:zlib");
  const bytes = Uint8Array.from([2, 3, 4, 5, 6, 7, 100]);
  const item = { i: 0, label: "t = 0 s", shapes: [[2, 3], [1, 1]], stats: [] };
  const axis = { lo: 0, hi: 3, name: "x", ticks: null };
  const traits = { scene: { panels: [{ colour: 0, x: axis, y: axis }, { colour: 0, x: axis, y: axis }] } };
  const values = [Array.from({ length: 256 }, (_, k) => k / 2)];
  const data = { traits, fmt: "u8", codec: "deflate", items: [item], frames: [deflateSync(bytes).toString("base64")], values };
  const frames = new EmbeddedFrames(data);
  const { buffers } = await frames.frame(0);
  assert.deepEqual(buffers.map((buffer) => [...buffer]), [[2, 3, 4, 5, 6, 7], [100]]);
  assert.deepEqual(await frames.value(0, 0, 0.9, 0.9), { value: 3.5, text: "x = 2.7, x = 0.3", about: true });
  await assert.rejects(frames.frame(1), /step 1/);
});
