// The state of a player part by part, under Node's own test runner.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Asking } from "../../binref_sci/notebook/browser/model/asking.js";
import { Channel } from "../../binref_sci/notebook/browser/model/channel.js";
import { Demand } from "../../binref_sci/notebook/browser/model/demand.js";
import { Frames } from "../../binref_sci/notebook/browser/model/frames.js";
import { Kernel } from "../../binref_sci/notebook/browser/model/kernel.js";
import { Look } from "../../binref_sci/notebook/browser/model/look.js";
import { Pace } from "../../binref_sci/notebook/browser/model/pace.js";
import { Pins } from "../../binref_sci/notebook/browser/model/pins.js";
import { Playhead } from "../../binref_sci/notebook/browser/model/playhead.js";
import { Questions } from "../../binref_sci/notebook/browser/model/questions.js";
import { Run } from "../../binref_sci/notebook/browser/model/run.js";
import { Scales } from "../../binref_sci/notebook/browser/model/scales.js";
import { Times } from "../../binref_sci/notebook/browser/model/times.js";
import { StubModel } from "../../binref_sci/notebook/browser/page/stub.js";
import { Skipping } from "../../binref_sci/notebook/browser/pure/rates.js";
import { seriesRange, shareAt, stepAt } from "../../binref_sci/notebook/browser/pure/series.js";

/** A channel to a model with these traits, and what was sent through it. */
function channelOf(traits = {}) {
  const model = new StubModel(traits, {});
  return { model, channel: new Channel(model, () => assert.fail("refused")), sent: model.sent };
}

const playheadOf = (traits) => new Playhead(channelOf({ n: 20, ...traits }).channel, 0);
const scene = (rows, columns, kind = "image") => ({ kind, panels: [{ rows, columns, colour: 0 }] });
const item = (i, more = {}) => ({ i, ver: 0, view: 1, fmt: "u8", shapes: [[2, 2]], label: `t = ${i} s`, ...more });
const codes = [new Uint8Array(4)];

test("what the page sets itself is not heard, what others set is", () => {
  const { model, channel } = channelOf({ index: 0 });
  const heard = [];
  channel.on("index", (index) => heard.push(index));
  channel.tell({ index: 3 });
  model.set("index", 4);
  assert.deepEqual(heard, [4]);
});

test("a host that takes no message ends nothing", () => {
  const refused = [];
  const model = { send: () => { throw new Error("no kernel"); } };
  new Channel(model, () => refused.push("once")).post({ type: "ready" });
  assert.deepEqual(refused, ["once"]);
});

test("a kernel is busy until it answers, and gone until it is heard", () => {
  const kernel = new Kernel();
  kernel.look(undefined, 0);
  assert.equal(kernel.look(undefined, 0), false);
  assert.equal(kernel.look(undefined, 9000), true);
  assert.deepEqual([kernel.busy, kernel.gone], [true, false]);
  assert.deepEqual([kernel.answered(), kernel.busy, kernel.answered()], [true, false, false]);
  kernel.lost();
  assert.equal(kernel.look(undefined, 0), true);
  assert.deepEqual([kernel.busy, kernel.gone], [true, true]);
  kernel.heard();
  assert.equal(kernel.look(undefined, 0), true);
  assert.deepEqual([kernel.busy, kernel.gone], [false, false]);
});

test("the playhead stays among its frames, one button marks a part", () => {
  const playhead = playheadOf({ index: 99, loop: "once" });
  assert.deepEqual([playhead.index, playhead.ended, playhead.start], [19, true, 0]);
  playhead.go(3.4);
  const marks = [];
  for (const index of [3, 9, 9]) {
    playhead.go(index);
    marks.push(playhead.markedNext);
    playhead.part = playhead.marked(playhead.markedNext);
  }
  assert.deepEqual(marks, ["in", "out", "all"]);
  assert.deepEqual(playhead.part, []);
});

test("where every frame is shown one is waited for, else it is passed", () => {
  const there = { ready: (i) => i < 2, allReady: (i) => i < 2 };
  const waiting = new Pace(playheadOf({ fps: 10 }), new Skipping());
  waiting.advance(0, there);
  assert.deepEqual(waiting.advance(100, there), { index: 1, direction: 1, ended: false, taken: 1 });
  assert.equal(waiting.waits, false);
  const late = new Pace(playheadOf({ fps: 10, index: 1 }), new Skipping());
  late.advance(0, there);
  assert.equal(late.advance(300, there).index, 1);
  assert.equal(late.waits, true);
  const keeping = new Pace(playheadOf({ fps: 10, index: 1, mode: "realtime" }), new Skipping());
  keeping.advance(0, there);
  assert.deepEqual(keeping.advance(300, there), { index: 4, direction: 1, ended: false, taken: 3 });
  assert.equal(keeping.waits, false);
});

test("in step with time a gap lasts as long as it is", () => {
  const playhead = playheadOf({ fps: 10, n: 4, mode: "timed", loop: "once" });
  const pace = new Pace(playhead, new Skipping());
  const there = { times: [0, 1, 4, 5], step: 5 / 3, ready: () => true };
  const came = []; // the time at which each frame is shown
  for (let time = 0; time < 400; time += 1) {
    playhead.index = pace.advance(time, there).index;
    came[playhead.index] ??= time;
  }
  assert.deepEqual([came[2] - came[1], came[3] - came[2]], [180, 60]);
});

test("more is skipped where frames come late, less where all are there", () => {
  const skipping = new Skipping();
  skipping.late();
  skipping.adapt(1000, { fps: 60, rate: 20 });
  assert.equal(skipping.every, 3);
  assert.deepEqual([0, 1, 2, 3].map((i) => skipping.shows(i, 1)), [true, false, false, true]);
  skipping.adapt(1100, { comfortable: true, fps: 60, rate: 20 });
  assert.equal(skipping.every, 3, "not at once");
  skipping.adapt(1600, { comfortable: true, fps: 60, rate: 20 });
  assert.equal(skipping.every, 2);
});

test("a mean is for rest, in play cells are left out; a big picture has a coarse one", () => {
  const look = new Look(scene(4000, 4000), "mean");
  look.lod = 4;
  const { play, rest, coarse } = look.views;
  assert.deepEqual([play.reduce, rest.reduce, coarse.reduce], ["stride", "mean", "stride"]);
  assert.ok(coarse.lod > 4);
  assert.equal(look.views, look.views, "made once");
  assert.deepEqual(look.kept(false), [rest.id, play.id, coarse.id]);
  assert.deepEqual(look.kept(true), [play.id, coarse.id]);
  look.window = [0, 0, 0.25, 0.25];
  look.lod = 1;
  const near = look.views;
  assert.equal(near.play, near.rest, "every cell is shown");
  assert.deepEqual(near.rest.window, [0, 0.25, 0, 0.25]);
  assert.equal(look.cells(1), 1e6);
  assert.ok(look.standIns.length > 3);
});

test("a line is f32 in full, and has no coarse picture", () => {
  const look = new Look(scene(2, 1e6, "line"), "mean");
  look.lod = 10;
  assert.equal(look.views.play, look.views.rest);
  assert.equal(look.views.coarse, null);
  assert.equal(look.bytes(10), 8e5);
});

test("frames are known once they are here or have failed; exact values are kept beside them", () => {
  const frames = new Frames(0, 1e6);
  const view = { id: 1 };
  assert.equal(frames.keep(item(3), codes, false), false);
  frames.fail(4, "not there");
  assert.deepEqual([2, 3, 4].map((i) => frames.known(view, i)), [false, true, true]);
  assert.equal(frames.labels.get(3), "t = 3 s");
  const floats = [new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer)];
  assert.equal(frames.keep(item(3, { fmt: "f32" }), floats, false), true);
  assert.deepEqual([0.1, 0.9].map((fx) => frames.valueAt(3, 0, fx, 0.9)), [3, 4]);
  assert.equal(frames.valueAt(2, 0, 0.1, 0.9), undefined);
  assert.equal(frames.hasValues(3, view), true);
  frames.renew(1);
  assert.deepEqual([3, 4].map((i) => frames.known(view, i)), [false, false]);
  assert.equal(frames.hasValues(3, view), false);
});

test("the same want is not sent twice, but again where it may be lost; the last one counts", () => {
  const { channel, sent } = channelOf();
  const demand = new Demand(channel);
  const want = (list, again) => demand.send({ ver: 0, view: { id: 1 }, fmt: "u8", list, credit: 2 }, again);
  want([1, 2, 3, 4]);
  want([1, 2, 3, 4]);
  assert.equal(sent.length, 1);
  want([1, 2, 3, 4], true);
  demand.turn();
  want([1, 2, 3, 4]);
  assert.deepEqual(sent.map(({ gen }) => gen), [0, 0, 1]);
  assert.deepEqual([demand.open, demand.waits, demand.inFlight, demand.halved], [true, true, 2, false]);
  demand.heard({ seq: 7 });
  demand.took();
  demand.came(1, performance.now());
  assert.deepEqual([demand.halved, demand.inFlight], [true, 1]);
  want([]);
  assert.deepEqual([sent.at(-1).idx, sent.at(-1).seen, demand.waits, demand.open], [[], 7, false, false]);
});

/** What is asked for by a player in this state. */
function asked({ traits = {}, playing = false, rest = {}, look = new Look(scene(100, 100), "mean"), have = [], values = true }) {
  const { channel, sent } = channelOf();
  const playhead = playheadOf(traits);
  playhead.playing = playing;
  look.lod ||= 1;
  const frames = new Frames(0, 1e7);
  for (const i of have) frames.keep(item(i, { view: look.views.play.id }), codes, look.line);
  new Asking({
    playhead, look, frames, values,
    demand: new Demand(channel),
    rest: { scrubbing: false, looking: false, filling: false, ...rest },
    skipping: new Skipping(),
    ahead: (count) => playhead.upcoming(count),
  }).want(true, false);
  return sent.map(({ idx, fmt, view }) => ({ idx, fmt, lod: view.lod }));
}

test("in play the frames to come are asked for, in their order", () => {
  const [{ idx }] = asked({ playing: true, traits: { index: 17, stride: 2 }, have: [17, 1] });
  assert.deepEqual(idx, [19, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
});

test("at rest: first the frame, then its values, then all around it", () => {
  const at = { traits: { index: 5, loop: "once" } };
  assert.deepEqual(asked(at), [{ idx: [5], fmt: "u8", lod: 1 }]);
  assert.deepEqual(asked({ ...at, have: [5] }), []);
  assert.deepEqual(asked({ ...at, have: [5], rest: { looking: true } }), [{ idx: [5], fmt: "f32", lod: 1 }]);
  const [{ idx, fmt }] = asked({ ...at, have: [5], values: false, rest: { looking: true, filling: true } });
  assert.equal(fmt, "u8");
  assert.deepEqual(idx.slice(0, 7), [6, 7, 8, 9, 4, 3, 10]);
});

test("a scrub over a big field asks for a coarse picture, once", () => {
  const look = new Look(scene(2000, 2000), "mean");
  const scrub = { traits: { index: 5 }, rest: { scrubbing: true } };
  const [{ idx, lod }] = asked({ ...scrub, look });
  assert.deepEqual([idx, lod > 10], [[5], true]);
  assert.deepEqual(asked({ ...scrub, look, have: [5] }), []);
});

test("a pointer has one question at a time", () => {
  const { channel, sent } = channelOf();
  const questions = new Questions(channel);
  const answers = [];
  assert.equal(questions.ask(0, 0.5, 0.5, 3, (answer) => answers.push(answer.value)), true);
  assert.equal(questions.ask(0, 0.6, 0.5, 3, () => assert.fail()), false);
  questions.receive({ id: sent[0].id, value: 7 });
  questions.receive({ id: sent[0].id, value: 8 });
  assert.deepEqual(answers, [7]);
  assert.equal(questions.ask(0, 0.6, 0.5, 3, () => {}), true);
});

test("pins have the least colour that is free, and go with Python's", () => {
  const { channel, sent } = channelOf();
  let changes = 0;
  const pins = new Pins(channel, () => (changes += 1));
  pins.sync([{ id: "a" }, { id: 4 }]);
  pins.pin(0, 0.5, 0.5);
  assert.deepEqual([...pins].map(({ id, hue }) => [id, hue]), [["a", 0], [4, 1], [5, 2]]);
  pins.sync([{ id: 5 }]);
  pins.pin(0, 0.1, 0.1);
  assert.deepEqual([...pins].map(({ id, hue }) => [id, hue]), [[5, 2], [6, 0]]);
  assert.deepEqual([sent.map(({ type }) => type), changes], [["pin", "pin"], 2]);
  const doubles = (...all) => new Uint8Array(Float64Array.from(all).buffer);
  assert.equal(pins.receive({ id: 9 }, []), false);
  assert.equal(pins.receive({ id: 6, text: "x = 1", done: 1 }, [doubles(0, 1), doubles(5, 6)]), true);
  assert.deepEqual([...[...pins].at(-1).values], [5, 6]);
});

test("a bar has arrows for what has been seen beyond the limits, until they change", () => {
  const { channel } = channelOf({ colours: [{ extend: "min" }, { extend: "neither", extend_given: true }] });
  const scales = new Scales(channel);
  const panels = [{ colour: 0 }, { colour: 1 }];
  const frame = { stats: [{ under: 0, over: 2 }, { under: 1, over: 1 }] };
  assert.equal(scales.see(frame, panels), true);
  assert.equal(scales.see(frame, panels), false);
  assert.deepEqual([0, 1, 2].map((k) => scales.drawn(k).extend), ["both", "neither", undefined]);
  scales.renew();
  assert.equal(scales.drawn(0).extend, "min");
});

test("a run that is followed says so to the kernel", () => {
  const { channel, sent } = channelOf({ live: { state: "writing", attached: true } });
  const run = new Run(channel);
  assert.deepEqual([run.writing, run.attached], [true, true]);
  run.attach(false);
  assert.deepEqual([run.attached, sent], [false, [{ type: "attach", on: false }]]);
  run.set(null);
  assert.deepEqual([run.writing, run.attached], [false, false]);
});

test("times come piece by piece, and are asked for only where they are missing", () => {
  const { channel, sent } = channelOf();
  const times = new Times(channel);
  const doubles = (...all) => new Uint8Array(Float64Array.from(all).buffer);
  times.need(2);
  assert.equal(times.receive({ from: 0 }, [doubles(0, 1)]), true);
  times.need(2);
  times.need(3);
  assert.equal(times.receive({ from: 5 }, [doubles(9)]), false);
  assert.equal(times.receive({ from: 2 }, [doubles(4)]), true);
  assert.deepEqual([[...times.values], sent.map(({ from }) => from)], [[0, 1, 4], [0, 2]]);
});

test("along a chart the steps lie at their times, or evenly", () => {
  const even = seriesRange([], 11);
  assert.deepEqual([stepAt(even, 0.52), shareAt(even, 5)], [5, 0.5]);
  const pin = { steps: [0, 4, 8], times: [0, 1, 10] };
  const range = seriesRange([{ times: null }, pin], 11);
  assert.deepEqual([stepAt(range, 0.2), stepAt(range, 0.9)], [4, 8]);
  assert.deepEqual([shareAt(range, 4), shareAt(range, 2)], [0.1, 0.05]);
});
