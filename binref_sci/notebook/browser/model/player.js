// The state of one widget model.

import { buffersOf, intact, numbersOf } from "../pure/bytes.js";
import { now } from "../pure/clock.js";
import { Skipping } from "../pure/rates.js";
import { Asking } from "./asking.js";
import { Channel, Report } from "./channel.js";
import { Demand } from "./demand.js";
import { Frames } from "./frames.js";
import { Kernel } from "./kernel.js";
import { Look } from "./look.js";
import { Pace } from "./pace.js";
import { Pins } from "./pins.js";
import { Playhead } from "./playhead.js";
import { Questions } from "./questions.js";
import { Rest } from "./rest.js";
import { Run } from "./run.js";
import { Scales } from "./scales.js";
import { Screen } from "./screen.js";
import { Sync } from "./sync.js";
import { Telemetry } from "./telemetry.js";
import { Times } from "./times.js";

const WATCH_MS = 250;
const ERROR_MS = 8000; // an error that is not about a frame is shown for so long
const CACHE_BYTES = 67108864;
const SETTINGS = ["fps", "mode", "loop", "direction", "stride", "part"];

/** Lets its parts play together: what is done here or in Python, what comes, and time that passes. */
export class Player {
  #asking;
  #pace;
  #report;
  #rest;
  #watcher;
  #forget; // timer of the error

  disposed = false;
  error = null;
  textual = false; // this host carries no binary

  constructor(model) {
    this.kernel = new Kernel();
    const channel = new Channel(model, () => this.kernel.lost());
    const scene = channel.get("scene", { panels: [], sliders: [], kind: "image", n: 0, dim: "" });
    this.channel = channel;
    this.options = channel.get("options", {});
    this.positions = channel.get("positions", []);
    this.status = channel.get("status", {});
    this.run = new Run(channel);
    this.look = new Look(scene, channel.get("reduce", "mean"));
    this.playhead = new Playhead(channel, scene.n ?? 0);
    this.frames = new Frames(channel.get("ver", 0), this.options.cache_bytes ?? CACHE_BYTES);
    this.scales = new Scales(channel);
    this.pins = new Pins(channel, () => this.refresh());
    this.pins.sync(channel.get("pinned", []));
    this.demand = new Demand(channel);
    this.questions = new Questions(channel);
    this.times = new Times(channel);
    this.telemetry = new Telemetry();
    this.skipping = new Skipping();
    this.sync = new Sync(this);
    this.#report = new Report(channel, () => this.playhead.index);
    this.#pace = new Pace(this.playhead, this.skipping);
    this.#rest = new Rest({ settled: () => this.want(), still: () => this.#turn() });
    this.#asking = new Asking({
      playhead: this.playhead,
      look: this.look,
      frames: this.frames,
      demand: this.demand,
      rest: this.#rest,
      skipping: this.skipping,
      ahead: (count) => this.sync.ahead(count),
      values: this.can("values"),
    });
    this.screen = new Screen({
      tick: (time) => this.#tick(time),
      choose: () => this.#choose(),
      painted: (started) => this.telemetry.paint(started),
      moving: () => this.playhead.playing && this.visible && !this.#pace.waits,
    });
    this.#listen();
    this.sync.join(channel.get("sync"));
    this.#watcher = setInterval(() => this.#watch(), WATCH_MS);
    channel.post({ type: "ready" });
    this.needTimes();
    const playing = channel.get("playing");
    if ((this.options.autoplay || playing) && !stillness()) this.play();
    else if (playing) channel.tell({ playing: false });
  }

  #listen() {
    const { channel, scales } = this;
    const on = (name, change) =>
      channel.on(name, (value) => {
        change(value);
        this.refresh();
      });
    on("index", (index) => this.seek(index));
    on("playing", (playing) => (playing ? this.play() : this.pause()));
    for (const name of SETTINGS) on(name, (value) => this.set(name, value));
    on("reduce", (how) => this.#reduceBy(how));
    on("sync", (name) => this.sync.join(name));
    on("positions", (positions) => (this.positions = positions));
    on("status", (status) => (this.status = status ?? {}));
    on("colours", (colours) => (scales.told = colours));
    on("luts", (luts) => scales.setTables(luts));
    on("pinned", (pinned) => this.pins.sync(pinned));
    on("scene", (scene) => {
      this.look.scene = scene;
      this.screen.relayout();
    });
    on("ver", (ver) => this.#renew(ver));
    on("n", (n) => this.#grow(n));
    on("live", (told) => this.#follow(told));
    channel.onKernel(() => {
      this.kernel.doubt();
      channel.post({ type: "ready" });
    });
    channel.onMessage((content, buffers) => this.#receive(content, buffers));
  }

  dispose() {
    clearInterval(this.#watcher);
    clearTimeout(this.#forget);
    this.#rest.dispose();
    this.#report.dispose();
    this.screen.close();
    this.disposed = true;
    this.sync.join("");
    this.frames.clear();
  }

  get scene() {
    return this.look.scene;
  }

  get visible() {
    return this.screen.visible;
  }

  can(what) {
    return !this.options.fixed?.includes(what);
  }

  refresh(all = true) {
    this.screen.refresh(all);
  }

  // --- what moves the playhead ---

  play() {
    const { playhead } = this;
    if (playhead.playing || playhead.n < 2) return;
    if (playhead.ended) this.#go(playhead.start); // from the end: once more
    playhead.playing = true;
    this.#rest.endScrub();
    this.#pace.reset();
    this.telemetry.painted.reset();
    this.demand.turn();
    this.channel.tell({ playing: true, direction: playhead.direction });
    this.sync.along((other) => other.play());
    this.want();
    this.refresh();
  }

  pause() {
    const { playhead } = this;
    const { index, direction } = playhead;
    if (!playhead.playing) return;
    playhead.playing = false;
    this.demand.turn();
    this.#report.told(index);
    this.channel.tell({ playing: false, index, direction });
    this.sync.along((other) => other.pause());
    this.#rest.move();
    this.want();
    this.refresh();
  }

  toggle() {
    if (this.playhead.playing) this.pause();
    else this.play();
  }

  #go(index) {
    this.playhead.go(index);
    this.demand.turn();
    this.#pace.reset();
    this.#rest.move();
    this.screen.inexact();
  }

  /** Move to `index`. `scrub`: more moves follow, so a coarse picture is asked for first. */
  seek(index, { scrub = false } = {}) {
    const { playhead } = this;
    const before = playhead.index;
    this.#go(index);
    this.#detach();
    if (scrub) this.#rest.scrub();
    if (before !== playhead.index && !playhead.playing) this.telemetry.count(this.exact(playhead.index));
    this.sync.along((other) => other.seek(other.sync.indexFor(this, playhead.index), { scrub }));
    this.want();
    this.refresh();
    this.#report.soon();
  }

  step(by) {
    if (this.playhead.playing) this.pause();
    this.seek(this.playhead.index + by);
  }

  /** Change one of the settings of how the playhead moves. */
  set(name, value) {
    this.playhead[name] = value;
    this.#pace.reset();
    this.channel.tell({ [name]: value });
    this.needTimes();
    this.sync.along((other) => other.set(name, name === "part" ? value.map((i) => other.sync.indexFor(this, i)) : value));
    this.#turn();
    this.refresh();
  }

  mark(what) {
    this.set("part", this.playhead.marked(what));
  }

  // --- a run that is going on ---

  get #atEnd() {
    return this.playhead.index === this.playhead.n - 1;
  }

  /** There are `n` steps now. */
  #grow(n) {
    const { playhead, run } = this;
    playhead.n = n;
    if (run.attached && n > 0) this.#go(n - 1);
    else if (playhead.index >= n) this.#go(playhead.last);
    this.needTimes();
    this.want();
  }

  #follow(told) {
    this.run.set(told);
    if (this.run.attached && !this.#atEnd) this.#go(this.playhead.n - 1);
  }

  /** Go to the last step; where the run goes on, to each that comes. */
  end() {
    this.seek(this.playhead.n - 1);
    if (this.run.writing) this.#attach(true);
  }

  /** Who looks at another step does not want to be taken to the last one. */
  #detach() {
    if (this.run.attached && !this.#atEnd) this.#attach(false);
  }

  #attach(on) {
    this.run.attach(on);
    this.refresh();
  }

  // --- what is looked at ---

  setReduction(how) {
    this.channel.tell({ reduce: how });
    this.#reduceBy(how);
  }

  #reduceBy(how) {
    this.look.reduce = how;
    this.#turn();
    this.refresh();
  }

  setPosition(slider, position) {
    this.positions = this.positions.map((old, k) => (k === slider ? position : old));
    this.demand.turn();
    this.channel.tell({ positions: this.positions });
    this.refresh();
  }

  zoom(window) {
    this.look.window = window;
    this.demand.turn();
    this.frames.dropValues();
    this.screen.relayout();
    this.want();
    this.refresh();
  }

  /** The sizes of the displays have changed. */
  measure() {
    const { lod } = this.screen;
    if (lod === 0 || lod === this.look.lod) return;
    this.look.lod = lod;
    this.#turn();
  }

  #renew(ver) {
    this.screen.renew();
    this.frames.renew(ver);
    this.scales.renew();
    this.demand.dropAll();
    this.#turn();
  }

  // --- the film on other players' clock ---

  /** Play as another does, and stand where it stands. */
  adopt(other) {
    const { fps, mode, loop, direction, stride, index, playing } = other.playhead;
    Object.assign(this.playhead, { fps, mode, loop, direction, stride });
    this.channel.tell({ fps, mode, loop, direction, stride });
    this.playhead.index = this.sync.indexFor(other, index);
    if (playing) this.play();
  }

  /** Stand where `leader` stands, as it plays. */
  place(leader) {
    const { playhead } = this;
    const before = playhead.index;
    playhead.index = this.sync.indexFor(leader, leader.playhead.index);
    playhead.direction = leader.playhead.direction;
    if (playhead.index === before) return;
    this.telemetry.count(this.ready(playhead.index));
    this.#report.whilePlaying();
    if (this.#asking.due) this.want();
    this.refresh(false);
  }

  needTimes() {
    const { mode, n } = this.playhead;
    if (this.scene.pace && (mode === "timed" || !this.sync.alone)) this.times.need(n);
  }

  // --- what is here, and what is asked for ---

  /** Whether frame `i` can be shown as it is played. */
  ready(i) {
    return this.frames.known(this.look.views.play, i);
  }

  /** Whether frame `i` is here as it should be shown now. */
  exact(i) {
    const { play, rest } = this.look.views;
    return this.frames.known(this.playhead.playing ? play : rest, i);
  }

  /** The best picture there is for the playhead. */
  #choose() {
    const { look, screen } = this;
    const { index, playing } = this.playhead;
    const { cache, failed, ver } = this.frames;
    const frame = cache.best(this.look.kept(playing), index);
    if (frame) return frame;
    if (failed.has(index)) return screen.shown;
    const others = look.standIns;
    const other = cache.best(others, index);
    if (other) return other;
    // while playing nothing else is shown: numbers never go back
    if (playing && screen.shown && screen.shown.ver === ver) return screen.shown;
    return cache.nearest(others, index) ?? screen.former ?? screen.shown;
  }

  /** Ask for what is missing; `again`: though the same was asked for before. */
  want({ again = false } = {}) {
    if (this.disposed || this.look.lod === 0 || this.playhead.n === 0) return;
    this.#asking.want(this.visible, again);
  }

  /** Something else is wanted than before. */
  #turn() {
    this.demand.turn();
    this.want();
  }

  /** Is the kernel busy, has a want been lost. */
  #watch() {
    const { channel, demand, kernel, telemetry } = this;
    const { playing } = this.playhead;
    if (kernel.look(channel.kernel, this.visible ? demand.waiting : 0)) this.refresh();
    if (kernel.busy && demand.old) this.want({ again: true });
    if (telemetry.shown || playing) this.refresh();
    if (playing && telemetry.due) channel.post({ type: "stats", ...telemetry.stats(demand) });
  }

  // --- answers ---

  #receive(content, buffers) {
    if (this.disposed) return;
    this.kernel.heard();
    const bytes = () => buffersOf(content, buffers);
    const answer = {
      probe: () => this.#probe(buffers),
      coords: () => {
        this.frames.coords[content.panel] = numbersOf(Float64Array, bytes()[0]);
        this.screen.redraw();
      },
      frames: () => this.#receiveFrames(content, bytes()),
      value: () => this.questions.receive(content),
      series: () => {
        if (this.pins.receive(content, bytes())) this.screen.redraw();
      },
      times: () => {
        if (this.times.receive(content, bytes())) this.sync.meet();
      },
      error: () => this.#receiveError(content),
    }[content.type];
    answer?.();
  }

  #probe(buffers) {
    if (intact(buffers)) return;
    this.textual = true;
    this.channel.post({ type: "fallback" });
    this.refresh();
  }

  #receiveFrames({ items }, buffers) {
    const { demand, frames, look, playhead } = this;
    const panels = look.scene.panels.length;
    const time = now();
    items.forEach((item, k) => {
      demand.heard(item);
      const whole = frames.whole(item, buffers.slice(k * panels, (k + 1) * panels));
      if (whole === null) return;
      demand.took();
      if (item.ver !== frames.ver) return;
      demand.came(item.i, time);
      this.telemetry.came(item);
      if (frames.keep(item, whole, look.line)) this.screen.answerHover();
    });
    this.#answered();
    const { index, direction, order, playing, every } = playhead;
    frames.cache.evict({ ...order, index, direction, kept: this.look.kept(playing) });
    // a want for each message would take the kernel, the server and the page (which shows the
    // kernel busy, and idle again) more time than the frames
    if (demand.halved || (playing && !every)) this.want();
    this.refresh(false);
    this.sync.wakeLeader();
  }

  #receiveError({ text, i }) {
    if (i === null || i === undefined) {
      this.error = text; // not about one frame: shown for a while
      clearTimeout(this.#forget);
      this.#forget = setTimeout(() => {
        this.error = null;
        this.refresh();
      }, ERROR_MS);
    } else {
      this.frames.fail(i, text);
      this.demand.drop(i);
    }
    this.#answered();
    this.want();
    this.refresh();
    this.sync.wakeLeader();
  }

  #answered() {
    this.demand.answered();
    if (!this.kernel.answered()) return;
    this.#pace.reset();
    this.refresh();
  }

  // --- time that passes ---

  #tick(time) {
    this.#pace.waits = false; // else a frame is waited for, which has it painted when it comes
    if (this.playhead.playing && this.visible && this.sync.leader === this) this.#advance(time);
    else this.#pace.reset();
  }

  #advance(time) {
    const { playhead } = this;
    const at = this.#pace.advance(time, {
      times: this.times.values,
      step: this.scene.pace?.step,
      ready: (i) => this.ready(i),
      allReady: (i) => this.ready(i) && this.sync.ready(i),
    });
    if (this.#pace.waits) this.telemetry.count(false);
    if (at.ended && this.run.attached && this.run.writing) return;
    const moved = at.index !== playhead.index;
    playhead.index = at.index;
    playhead.direction = at.direction;
    if (moved) this.#moved(at.taken);
    if (at.ended) this.pause();
  }

  /** So many steps have led to where the playhead is. */
  #moved(taken) {
    const hit = this.ready(this.playhead.index);
    this.telemetry.count(hit);
    this.telemetry.drop(Math.max(0, taken - 1) + (hit ? 0 : 1));
    this.#detach();
    this.#report.whilePlaying();
    this.sync.along((other) => other.place(this));
    if (this.#asking.due) this.want();
  }
}

/** Whether the reader has asked for less motion. */
function stillness() {
  return globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches === true;
}
