import {
  AHEAD_PAUSED,
  AHEAD_PLAYING,
  ASK_AGAIN_MS,
  COARSE_CELLS,
  Clock,
  DOUBT_MS,
  ERROR_MS,
  FILL_MS,
  FRAME_OVERHEAD,
  LIST_LENGTH,
  LONGEST_STEP_S,
  PLAY_REPORT_MS,
  REPORT_MS,
  REST_MS,
  STATS_MS,
  VALUES_MS,
  following,
  markedPart,
  nearestIn,
  upcoming,
} from "./order.js";
import { FrameCache } from "./cache.js";
import { Rate, RoundTrip, credits, skipOf } from "./rates.js";
import { Parts, buffersOf, intact, numbersOf } from "./bytes.js";
import { tables } from "./colours.js";
import { WHOLE } from "./windows.js";
import { kernelState } from "./words.js";
import { flag } from "./pieces.js";

// --- The state of one widget model ---------------------------------------------------------------

export const CMAPS = ["viridis", "magma", "cividis", "turbo", "RdBu_r", "gray"];
export const NORMS = ["linear", "log", "symlog"];
export const REDUCTIONS = { mean: "mean", max: "largest", min: "smallest", absmax: "farthest from 0" };
export const LOOPS = ["loop", "bounce", "once"];
const FLOATS_BYTES = 2e6; // more than that would hold up the next scrub

const GROUPS = Symbol.for("binref_sci.players");

export const now = () => performance.now();

/** What is played, where it is, what is cached and what to ask for. Knows views, not their DOM. */
export class Player {
  constructor(model) {
    this.model = model;
    this.views = new Set();
    this.clock = new Clock();
    this.painted = new Rate();
    this.arrived = new Rate();
    this.trip = new RoundTrip();
    this.parts = new Parts();
    this.failed = new Map();
    this.labels = new Map();
    this.pins = new Map();
    this.coords = [];
    this.viewIds = new Map();
    this.window = null;
    this.lod = 0; // 0: no view has a size yet
    this.gen = 0;
    this.seen = 0;
    this.scrubbed = -Infinity;
    this.moved = -Infinity;
    this.asked = null; // since when an answer has been waited for
    this.listed = 0; // frames of the last want
    this.got = 0; // frames that have come since
    this.wanted = new Map(); // index -> when it was first asked for
    this.floats = null;
    this.busy = false;
    this.error = null;
    this.skip = 1; // in real time
    this.starved = false;
    this.adapted = 0;
    this.counts = { dropped: 0, hits: 0, misses: 0, paint: 0, read: 0, enc: 0 };
    this.telemetry = false;
    this.message = "";
    this.questions = new Map();
    this.question = 0;
    this.lastReport = 0;
    this.reportLater = null;
    this.times = null; // of all frames, once they are needed
    this.group = null; // players on one clock
    this.beyond = []; // by colour scale: whether a frame had values under or over the limits
    this.gone = false; // the kernel no longer knows this player
    this.reported = null;
    this.telling = false;
    this.frameRequest = 0;
    this.load();
    this.options = model.get("options") ?? {};
    this.cache = new FrameCache(this.options.cache_bytes ?? 67108864);
    this.listen();
    this.join(model.get("sync"));
    this.ticker = setInterval(() => this.watch(), 250);
    this.post({ type: "ready" });
    this.needTimes();
    if ((this.options.autoplay || model.get("playing")) && !stillness()) this.play();
    else if (model.get("playing")) this.tell({ playing: false });
  }

  load() {
    const get = (name, otherwise) => this.model.get(name) ?? otherwise;
    this.scene = get("scene", { panels: [], sliders: [], kind: "image", n: 0, dim: "" });
    this.n = get("n", this.scene.n ?? 0);
    this.ver = get("ver", 0);
    this.colours = get("colours", []);
    this.tables = tables(get("luts", null));
    this.index = Math.min(Math.max(0, get("index", 0)), Math.max(0, this.n - 1));
    this.fps = get("fps", 20);
    this.mode = get("mode", "every");
    this.loop = get("loop", "loop");
    this.direction = get("direction", 1);
    this.stride = Math.max(1, get("stride", 1));
    this.part = get("part", []);
    this.reduce = get("reduce", "mean");
    this.positions = get("positions", []);
    this.live = get("live", {});
    this.attached = this.live.attached === true;
    this.status = get("status", {});
    this.playing = false;
    this.syncPins(get("pinned", []));
  }

  /** Traits that Python (or a link) changes. What we set ourselves is not heard. */
  listen() {
    const on = (name, change) =>
      this.model.on(`change:${name}`, () => {
        if (this.telling) return;
        change(this.model.get(name));
        this.refresh();
      });
    on("index", (index) => this.seek(index));
    on("playing", (playing) => (playing ? this.play() : this.pause()));
    for (const name of ["fps", "mode", "loop", "direction", "stride", "part"]) {
      on(name, (value) => this.setting(name, value));
    }
    on("reduce", (how) => this.reduceBy(how));
    on("sync", (name) => this.join(name));
    on("positions", (positions) => (this.positions = positions));
    on("status", (status) => (this.status = status ?? {}));
    on("colours", (colours) => (this.colours = colours));
    on("luts", (luts) => (this.tables = tables(luts)));
    on("pinned", (pins) => this.syncPins(pins));
    on("scene", (scene) => {
      this.scene = scene;
      this.relayout();
    });
    on("ver", (ver) => this.renew(ver));
    on("n", (n) => {
      this.n = n;
      if (this.attached && n > 0) this.go(n - 1);
      else if (this.index >= n) this.go(Math.max(0, n - 1));
      this.needTimes();
      this.want();
    });
    on("live", (live) => {
      this.live = live ?? {};
      this.attached = this.live.attached === true;
      if (this.attached && this.index !== this.n - 1) this.go(this.n - 1);
    });
    this.model.on("comm_live_update", () => {
      this.doubted = now(); // lost or found: if anybody answers, it is there
      this.post({ type: "ready" });
    });
    this.model.on("msg:custom", (content, buffers) => this.receive(content, buffers));
  }

  /** Send to the kernel. A host whose kernel has gone may refuse, which ends nothing here. */
  post(content) {
    try {
      this.model.send(content);
    } catch {
      this.gone = true;
    }
  }

  /** Tell Python; the change event of our own set is not a seek. */
  tell(traits) {
    this.telling = true;
    try {
      for (const [name, value] of Object.entries(traits)) this.model.set(name, value);
    } finally {
      this.telling = false;
    }
    this.model.save_changes();
  }

  report() {
    if (this.reported === this.index) return;
    this.reported = this.index;
    this.lastReport = now();
    this.tell({ index: this.index });
  }

  dispose() {
    clearInterval(this.ticker);
    clearTimeout(this.rest);
    clearTimeout(this.settled);
    clearTimeout(this.forget);
    clearTimeout(this.reportLater);
    cancelAnimationFrame(this.frameRequest);
    this.disposed = true;
    this.join("");
    this.cache.clear();
    this.parts.clear();
    this.floats = null;
    this.views.clear();
  }

  // --- where the playhead is ---

  get order() {
    const { n, loop, stride, part } = this;
    const [first, last] = part.length === 2 ? part.map((at) => Math.min(at, n - 1)) : [0, n - 1];
    return { n, loop, stride, first, last };
  }

  /** Mark the start ("in") or the end ("out") of the part that is played; "all": play all again. */
  mark(what) {
    this.setting("part", what === "all" ? [] : markedPart(this.part, what, this.index, this.n));
  }

  /** One button for all of it: the start, then the end, then all again. */
  markNext() {
    if (this.part.length === 0) this.mark(this.index < this.n - 1 ? "in" : "out");
    else if (this.part[1] === this.n - 1 && this.index > this.part[0]) this.mark("out");
    else this.mark("all");
  }

  play() {
    if (this.playing || this.n < 2) return;
    if (this.loop === "once" && following(this.index, this.direction, this.order).ended) {
      this.go(this.direction > 0 ? this.order.first : this.order.last); // from the end: once more
    }
    this.playing = true;
    this.scrubbed = -Infinity;
    this.clock.reset();
    this.painted.reset();
    this.gen += 1;
    this.tell({ playing: true, direction: this.direction });
    this.along((other) => other.play());
    this.want();
    this.refresh();
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.gen += 1;
    this.reported = this.index;
    this.tell({ playing: false, index: this.index, direction: this.direction });
    this.along((other) => other.pause());
    this.settle();
    this.want();
    this.refresh();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  go(index) {
    this.index = Math.min(Math.max(0, Math.round(index)), Math.max(0, this.n - 1));
    this.gen += 1;
    this.clock.reset();
    this.settle();
    for (const view of this.views) flag(view.root, "exact", "0"); // until it has been painted
  }

  /** Exact values are for a frame that is looked at, not for one that is passed. */
  settle() {
    this.moved = now();
    clearTimeout(this.settled);
    this.settled = setTimeout(() => {
      this.want();
      this.settled = setTimeout(() => this.want(), FILL_MS - VALUES_MS);
    }, VALUES_MS + 5);
  }

  /** Move to `index`. `scrub`: more moves follow, so a coarse picture is asked for first. */
  seek(index, { scrub = false } = {}) {
    const before = this.index;
    this.go(index);
    if (this.attached && this.index !== this.n - 1) this.attach(false);
    if (scrub) {
      this.scrubbed = now();
      clearTimeout(this.rest);
      this.rest = setTimeout(() => {
        this.scrubbed = -Infinity;
        this.gen += 1;
        this.want();
      }, REST_MS);
    }
    if (before !== this.index && !this.playing) this.count(this.exact(this.index));
    this.along((other) => other.seek(other.indexFor(this, this.index), { scrub }));
    this.want();
    this.refresh();
    this.reportSoon();
  }

  /** Not at once: the frame comes first. */
  reportSoon() {
    this.reportLater ??= setTimeout(() => {
      this.reportLater = null;
      this.report();
    }, REPORT_MS);
  }

  step(by) {
    if (this.playing) this.pause();
    this.seek(this.index + by);
  }

  end() {
    this.seek(this.n - 1);
    if (this.live.state === "writing") this.attach(true);
  }

  attach(on) {
    this.attached = on;
    this.post({ type: "attach", on });
    this.refresh();
  }

  setting(name, value) {
    this[name] = value;
    this.gen += 1;
    this.clock.reset();
    this.tell({ [name]: value });
    this.needTimes();
    this.along((other) => other.setting(name, name === "part" ? value.map((i) => other.indexFor(this, i)) : value));
    this.want();
    this.refresh();
  }

  reduceBy(how) {
    this.reduce = how;
    this.gen += 1;
    this.want();
    this.refresh();
  }

  setPosition(slider, position) {
    this.positions = this.positions.map((old, k) => (k === slider ? position : old));
    this.gen += 1;
    this.tell({ positions: this.positions });
    this.refresh();
  }

  /** The cached frames are wrong from now on; what is shown stays until its successor comes. */
  renew(ver) {
    this.ver = ver;
    this.stale = this.shown ?? this.stale;
    this.cache.clear();
    this.parts.clear();
    this.failed.clear();
    this.labels.clear();
    this.wanted.clear();
    this.beyond = [];
    this.floats = null;
    this.gen += 1;
    this.want();
  }

  // --- players on one clock ---

  /** Join the players of this page that have a name in common; "" leaves them. */
  join(name) {
    // the registry is the page's: a host may load this module once for each player
    const groups = (globalThis[GROUPS] ??= new Map());
    this.group?.delete(this);
    this.group = null;
    this.host = null;
    if (!name) return;
    if (!groups.has(name)) groups.set(name, new Set());
    this.group = groups.get(name);
    const [other] = this.group;
    this.group.add(this);
    for (const one of this.group) one.needTimes();
    if (!other) return;
    const { fps, mode, loop, direction, stride } = other;
    Object.assign(this, { fps, mode, loop, direction, stride });
    this.tell({ fps, mode, loop, direction, stride });
    this.host = other;
    this.index = this.indexFor(other, other.index);
    if (other.playing) this.play();
  }

  /** Go where the player stands that was there before, once both know their times. */
  meet() {
    const { host } = this;
    if (!host?.times || !this.times) return;
    this.host = null;
    if (!this.playing) host.along((other) => other === this && other.seek(this.indexFor(host, host.index)));
  }

  get others() {
    return this.group ? [...this.group].filter((other) => other !== this && !other.disposed) : [];
  }

  /** Whose clock it is: the first that plays and can be seen. */
  get leader() {
    if (!this.group) return this;
    return [...this.group].find((one) => one.playing && one.visible && !one.disposed) ?? this;
  }

  /** Do something with all others of the group; what they do then does not come back. */
  along(action) {
    if (this.led) return;
    for (const other of this.others) {
      other.led = true;
      try {
        action(other);
      } finally {
        other.led = false;
      }
    }
  }

  /** The frame that belongs to frame `i` of another player: of the same time, else the same step. */
  indexFor(other, i) {
    const [mine, its] = [this.times, other.times];
    const last = Math.max(0, this.n - 1);
    if (!mine?.length || !its?.length || this.scene.pace?.clock !== other.scene.pace?.clock) return Math.min(i, last);
    if (mine.length === its.length && mine[0] === its[0] && mine.at(-1) === its.at(-1)) return Math.min(i, last);
    return nearestIn(mine, its[Math.min(i, its.length - 1)]);
  }

  /** Stand where `leader` stands, as it plays. */
  place(leader) {
    const before = this.index;
    this.index = this.indexFor(leader, leader.index);
    this.direction = leader.direction;
    if (this.index === before) return;
    this.count(this.ready(this.index));
    if (now() - this.lastReport >= PLAY_REPORT_MS) this.report();
    this.playAsk();
    this.refresh(false);
  }

  /** Up to `count` frames to come, as the player has them that keeps the clock. */
  ahead(count) {
    const { leader } = this;
    const found = upcoming(leader.index, leader.direction, leader.order, count);
    return leader === this ? found : [...new Set(found.map((i) => this.indexFor(leader, i)))];
  }

  /** Whether a frame is here, and those that belong to it in all that can be seen. */
  allReady(i) {
    const waits = (other) => other.playing && other.visible && !other.ready(other.indexFor(this, i));
    return this.ready(i) && !this.others.some(waits);
  }

  // --- times ---

  /** Ask for the times of all frames, once they are of use. */
  needTimes() {
    const there = this.times?.length ?? 0;
    if (!this.scene.pace || there >= this.n) return;
    if (this.mode === "timed" || (this.group?.size ?? 0) > 1) this.post({ type: "times", from: there });
  }

  receiveTimes({ from }, [bytes]) {
    const more = numbersOf(Float64Array, bytes);
    const old = this.times ?? new Float64Array(0);
    if (from > old.length) return;
    this.times = new Float64Array(from + more.length);
    this.times.set(old.subarray(0, from));
    this.times.set(more, from);
    for (const one of this.group ?? []) one.meet();
  }

  /** In step with time: how many steps are due, and how many mean steps they last. */
  timedSteps() {
    const { times, clock, order } = this;
    let at = { index: this.index, direction: this.direction };
    let due = 0;
    let cost = 0;
    while (due < 1000) {
      const next = following(at.index, at.direction, order);
      const passed = times ? Math.abs(times[next.index] - times[at.index]) : 0;
      const turned = (next.index - at.index) * at.direction <= 0; // from the end to the start
      const share = passed / (this.scene.pace?.step * order.stride);
      const lasts = next.ended || turned || !(share > 0) ? 1 : Math.min(share, LONGEST_STEP_S * this.fps);
      if (clock.owed < cost + lasts) break;
      cost += lasts;
      due += 1;
      at = next;
      if (next.ended) break;
    }
    return [due, cost];
  }

  // --- what is looked at, and how closely ---

  viewFor(lod, reduce) {
    const window = this.window;
    const key = JSON.stringify([window, lod, lod === 1 ? "stride" : reduce]);
    let view = this.viewIds.get(key);
    if (!view) {
      const [left, top, right, bottom] = window ?? WHOLE;
      const wire = window ? [left, right, top, bottom] : null;
      view = { id: this.viewIds.size + 1, window: wire, lod, reduce: lod === 1 ? "stride" : reduce };
      this.viewIds.set(key, view);
    }
    return view;
  }

  /** The views in use; made anew only when what is looked at has changed. */
  get looks() {
    const { window, lod, scene, reduce } = this;
    const old = this.lastLooks;
    if (old && old.window === window && old.lod === lod && old.scene === scene && old.reduce === reduce) return old;
    const line = scene.kind === "line";
    // what was asked for, as a front is lost by leaving cells out; a mean only at rest
    const play = this.viewFor(lod, line || reduce === "mean" ? "stride" : reduce);
    const rest = this.viewFor(lod, line ? "stride" : reduce);
    const cells = this.cells(lod);
    // a picture small enough to come at once, where the exact one is not
    const big = !line && cells > 4 * COARSE_CELLS;
    const coarse = big ? this.viewFor(lod * Math.ceil(Math.sqrt(cells / COARSE_CELLS)), "stride") : null;
    const ids = (...views) => [...new Set(views.filter(Boolean).map(({ id }) => id))];
    const playing = ids(play, coarse);
    const resting = ids(rest, play, coarse);
    this.lastLooks = { window, lod, scene, reduce, play, rest, coarse, playing, resting };
    return this.lastLooks;
  }

  get playView() {
    return this.looks.play;
  }

  get restView() {
    return this.looks.rest;
  }

  /** Cells of all panels at a level of detail, inside the window. */
  cells(lod) {
    const [left, top, right, bottom] = this.window ?? WHOLE;
    const share = (right - left) * (bottom - top);
    const line = this.scene.kind === "line";
    return this.scene.panels.reduce((sum, { rows, columns }) => {
      const reduced = line ? (rows * columns) / lod : (rows * columns) / (lod * lod);
      return sum + reduced * share;
    }, 0);
  }

  get frameBytes() {
    return Math.max(1, this.cells(Math.max(1, this.lod)) * (this.scene.kind === "line" ? 4 : 1));
  }

  /** Frames that are kept ahead. */
  get capacity() {
    return Math.max(1, Math.floor((0.7 * this.cache.limit) / (this.frameBytes + FRAME_OVERHEAD)));
  }

  /** Ids of the views in use, the best first. */
  get kept() {
    return this.playing ? this.looks.playing : this.looks.resting;
  }

  zoom(window) {
    this.window = window;
    this.gen += 1;
    this.floats = null;
    this.relayout();
    this.want();
    this.refresh();
  }

  /** The sizes of the views have changed. */
  measure() {
    let lod = Infinity;
    for (const view of this.views) if (view.visible) lod = Math.min(lod, view.lod);
    if (!Number.isFinite(lod) || lod === 0 || lod === this.lod) return;
    this.lod = lod;
    this.gen += 1;
    this.want();
  }

  get visible() {
    if (document.visibilityState === "hidden") return false;
    for (const view of this.views) if (view.visible) return true;
    return false;
  }

  exact(i) {
    const frame = this.cache.get(this.playing ? this.playView.id : this.restView.id, i);
    return frame !== undefined || this.failed.has(i);
  }

  /** The best picture there is for the playhead. */
  choose() {
    const views = this.kept;
    const frame = this.cache.best(views, this.index);
    if (frame) return frame;
    if (this.failed.has(this.index)) return this.shown ?? null;
    const others = this.standIns();
    const other = this.cache.best(others, this.index);
    if (other) return other;
    // while playing nothing else is shown: numbers never go back
    if (this.playing && this.shown && this.shown.ver === this.ver) return this.shown;
    return this.cache.nearest(others, this.index) ?? this.stale ?? this.shown ?? null;
  }

  /** Ids of all views, newest first, but those that cover the whole window before all others. */
  standIns() {
    const [left, top, right, bottom] = this.window ?? WHOLE;
    const covers = ({ window }) =>
      !window || (window[0] <= left && window[1] >= right && window[2] <= top && window[3] >= bottom);
    const views = [...this.viewIds.values()].reverse();
    return [...views.filter(covers), ...views.filter((view) => !covers(view))].map(({ id }) => id);
  }

  // --- asking ---

  /** What to ask for; null: nothing for now. */
  plan() {
    const { capacity } = this;
    const missing = (view) => (i) => !this.cache.has(view.id, i) && !this.failed.has(i);
    const line = this.scene.kind === "line";
    const fmt = line ? "f32" : "u8";
    const at = this.index;
    if (this.playing) {
      const view = this.playView;
      let list;
      if (this.mode !== "every") {
        const lead = Math.ceil((this.trip.ms * this.fps) / 1000);
        const ahead = Math.min(capacity, 4 * LIST_LENGTH) + lead;
        list = this.ahead(ahead)
          .slice(lead)
          .filter((i) => this.due(i) && missing(view)(i));
        this.adapt(list.length === 0);
      } else {
        const ahead = Math.min(capacity, AHEAD_PLAYING);
        list = [at, ...this.ahead(ahead)].filter(missing(view));
      }
      return { view, fmt, list: list.slice(0, LIST_LENGTH) };
    }
    if (now() - this.scrubbed < REST_MS) {
      const { coarse } = this.looks;
      if (coarse) {
        const have = this.cache.best(this.kept, at) !== undefined || this.failed.has(at);
        return have ? null : { view: coarse, fmt, list: [at] };
      }
      return { view: this.restView, fmt, list: [at].filter(missing(this.restView)) };
    }
    const rest = this.restView;
    const filling = now() - this.moved >= FILL_MS;
    if (missing(rest)(at)) {
      if (rest !== this.playView || !filling) return { view: rest, fmt, list: [at] };
    } else if (!line && this.floatsWanted()) {
      return { view: rest, fmt: "f32", list: [at] };
    }
    if (!filling) return null;
    // at rest: fill the cache ahead, then some frames behind
    const reach = Math.min(capacity, AHEAD_PAUSED);
    const ahead = upcoming(at, this.direction, this.order, reach);
    const back = { ...this.order, loop: "once" };
    const behind = upcoming(at, -this.direction, back, Math.floor(reach / 4));
    const nearest = [at, ...ahead.slice(0, 4), ...behind.slice(0, 2)];
    const list = [...new Set([...nearest, ...ahead, ...behind])].slice(0, reach);
    const view = this.playView;
    return { view, fmt, list: list.filter(missing(view)).slice(0, LIST_LENGTH) };
  }

  /** Whether frame `i` is one of those shown in real time: every `skip`-th, evenly. */
  due(i) {
    return Math.round(i / this.stride) % this.skip === 0;
  }

  /** Twice a second: skip more where frames came too late, less where all of them are there. */
  adapt(comfortable) {
    const time = now();
    if (time - this.adapted < 500) return;
    this.adapted = time;
    if (this.starved) {
      this.skip = Math.min(60, Math.max(this.skip + 1, skipOf(this.fps, this.arrived.perSecond(time))));
    } else if (comfortable) {
      this.skip = Math.max(1, this.skip - 1);
    }
    this.starved = false;
  }

  /** Exact values of the frame on pause, where they are the field itself and not too many. */
  floatsWanted() {
    if (this.options.fixed?.includes("values") || this.failed.has(this.index)) return false;
    if (now() - this.moved < VALUES_MS) return false;
    if (this.lod !== 1 || this.cells(1) * 4 > FLOATS_BYTES) return false;
    const { floats } = this;
    return !(floats && floats.i === this.index && floats.view === this.restView.id);
  }

  /** Ask for what is missing; `again`: though the same was asked for before. */
  want({ again = false } = {}) {
    if (this.disposed || this.lod === 0 || this.n === 0) return;
    const time = now();
    this.wantedAt = time;
    const plan = this.visible ? this.plan() : { view: this.playView, fmt: "u8", list: [] };
    if (plan === null && this.got >= this.listed) return; // nothing to take back
    const { view, fmt, list } = plan ?? { view: this.playView, fmt: "u8", list: [] };
    const credit = list.length ? this.creditOf(view, fmt, list) : 0;
    const { gen, ver, seen } = this;
    const message = { type: "want", gen, ver, view, idx: list, fmt, seen, credit };
    // without frames nothing changes but the numbers
    const said = list.length ? JSON.stringify(message) : "";
    if (said === this.said && !again) return;
    this.said = said;
    this.sentAt = time;
    if (list.length === 0) this.asked = null;
    else this.asked ??= time;
    for (const i of list.slice(0, credit)) if (!this.wanted.has(i)) this.wanted.set(i, time);
    this.credit = credit;
    this.listed = list.length;
    this.got = 0;
    this.post(message);
  }

  creditOf(view, fmt, list) {
    const line = this.scene.kind === "line";
    if (fmt === "f32" && !line) return 1;
    const bytes = this.cells(view.lod) * (line ? 4 : 1);
    const every = this.mode === "every";
    const credit = credits({ playing: this.playing, every, rtt: this.trip.ms, fps: this.fps, bytes });
    // what is looked at does not wait for what is under way
    return !this.playing && list[0] === this.index ? Math.max(2, credit) : credit;
  }

  /**
   * Ask again once half of what may be under way has come. A want for each message would take the
   * kernel, the server and the page (which shows the kernel busy, and idle again) more time than
   * the frames.
   */
  more() {
    const half = Math.min(Math.max(1, this.credit >> 1), this.listed);
    if (this.got >= half || (this.playing && this.mode !== "every")) this.want();
  }

  /** Four times a second: is the kernel busy, has a want been lost. */
  watch() {
    if (this.disposed) return;
    const time = now();
    const waiting = this.asked === null || !this.visible ? 0 : time - this.asked;
    const kernel = kernelState(this.model.widget_manager?.kernel, waiting);
    if (kernel === "gone" || (this.doubted && time - this.doubted > DOUBT_MS)) this.gone = true;
    const busy = kernel !== "" || this.gone;
    if (busy !== this.busy || this.gone !== this.wasGone) {
      this.busy = busy;
      this.wasGone = this.gone;
      this.refresh();
    }
    if (busy && time - this.sentAt > ASK_AGAIN_MS) this.want({ again: true });
    if (this.telemetry || this.playing) this.refresh();
    if (this.playing && time - (this.lastStats ?? 0) > STATS_MS) {
      this.lastStats = time;
      this.post({ type: "stats", ...this.stats() });
    }
  }

  stats() {
    const time = now();
    const { dropped, hits, misses, paint } = this.counts;
    return {
      fps: round(this.painted.perSecond(time), 1),
      dropped,
      hits: hits + misses ? round(hits / (hits + misses), 3) : null,
      rtt_ms: round(this.trip.ms, 1),
      in_flight: this.inFlight,
      paint_ms: round(paint, 2),
      gap_p95_ms: round(this.painted.gap95(), 1),
    };
  }

  get inFlight() {
    return this.asked === null ? 0 : Math.min(this.credit ?? 0, this.wanted.size);
  }

  count(hit) {
    if (hit) this.counts.hits += 1;
    else this.counts.misses += 1;
  }

  // --- answers ---

  receive(content, buffers) {
    if (this.disposed) return;
    this.gone = false;
    this.doubted = null;
    const answer = {
      probe: () => this.probe(content, buffers),
      coords: () => {
        this.coords[content.panel] = numbersOf(Float64Array, buffersOf(content, buffers)[0]);
        this.redraw();
      },
      frames: () => this.receiveFrames(content, buffersOf(content, buffers)),
      value: () => {
        const answered = this.questions.get(content.id);
        this.questions.delete(content.id);
        answered?.(content);
      },
      series: () => this.receiveSeries(content, buffersOf(content, buffers)),
      times: () => this.receiveTimes(content, buffersOf(content, buffers)),
      error: () => this.receiveError(content),
    }[content.type];
    answer?.();
  }

  probe(content, buffers) {
    if (intact(buffers)) return;
    this.fallback = true;
    this.post({ type: "fallback" });
    this.refresh();
  }

  receiveFrames({ items }, buffers) {
    const panels = this.scene.panels.length;
    const time = now();
    const line = this.scene.kind === "line";
    items.forEach((item, k) => {
      this.seen = Math.max(this.seen, item.seq ?? 0);
      const whole = this.parts.add(
        item, buffers.slice(k * panels, (k + 1) * panels), item.fmt === "f32" ? 4 : 1,
      );
      if (whole === null) return;
      this.got += 1;
      if (item.ver !== this.ver) return;
      if (this.wanted.has(item.i)) {
        this.trip.add(time - this.wanted.get(item.i));
        this.wanted.delete(item.i);
      }
      this.arrived.add(time);
      this.counts.read = item.ms?.read ?? this.counts.read;
      this.counts.enc = item.ms?.enc ?? this.counts.enc;
      const frame = { ...item, rows: undefined };
      if (item.fmt === "f32") frame.values = whole.map((bytes) => numbersOf(Float32Array, bytes));
      if (item.fmt === "f32" && !line) {
        this.floats = frame;
        for (const view of this.views) view.answerHover();
        return;
      }
      if (!line) frame.codes = whole;
      frame.bytes = whole.reduce((sum, bytes) => sum + bytes.length, 0);
      this.label(item.i, item.label);
      this.cache.put(item.view, item.i, frame);
    });
    this.answered();
    this.cache.evict({ ...this.order, index: this.index, direction: this.direction, kept: this.kept });
    this.more();
    this.refresh(false);
    this.wakeLeader();
  }

  receiveError({ text, i }) {
    if (i === null || i === undefined) {
      this.error = text; // not about one frame: shown for a while
      clearTimeout(this.forget);
      this.forget = setTimeout(() => {
        this.error = null;
        this.refresh();
      }, ERROR_MS);
    } else {
      this.failed.set(i, text);
      this.wanted.delete(i);
      this.cache.changes += 1;
    }
    this.answered();
    this.want();
    this.refresh();
    this.wakeLeader();
  }

  /** Who keeps the clock may wait for a frame of this player. */
  wakeLeader() {
    if (this.playing && this.leader !== this) this.leader.refresh(false);
  }

  answered() {
    this.asked = this.got < this.listed ? now() : null;
    if (this.busy) {
      this.busy = false;
      this.clock.reset();
      this.refresh();
    }
    if (this.wanted.size > 4 * LIST_LENGTH) this.wanted.clear();
  }

  label(i, label) {
    if (this.labels.size > 5000) this.labels.clear();
    this.labels.set(i, label);
  }

  // --- values and pins ---

  /** Ask the kernel for the exact value; one question at a time is enough for a pointer. */
  ask(panel, fx, fy, i, answered) {
    if (this.questions.size > 0 && now() - this.questionAt < 2000) return false;
    this.questions.clear();
    this.question += 1;
    this.questionAt = now();
    this.questions.set(this.question, answered);
    this.post({ type: "value", id: this.question, i, panel, fx, fy });
    return true;
  }

  /** The exact value at a point of the picture if it is here already, else undefined. */
  localValue(panel, fx, fy) {
    const { floats } = this;
    if (this.playing || !floats || floats.i !== this.index || floats.ver !== this.ver) return undefined;
    const [left, right, top, bottom] = floats.window ?? [0, 1, 0, 1];
    const [rows, columns] = floats.shapes[panel];
    const column = Math.floor(((fx - left) / (right - left)) * columns);
    const row = Math.floor(((fy - top) / (bottom - top)) * rows);
    if (column < 0 || row < 0 || column >= columns || row >= rows) return undefined;
    return floats.values[panel][row * columns + column];
  }

  syncPins(pins) {
    const ids = new Set(pins.map((pin) => pin.id));
    for (const id of this.pins.keys()) if (!ids.has(id)) this.pins.delete(id);
    for (const pin of pins) if (!this.pins.has(pin.id)) this.addPin(pin);
  }

  addPin(pin) {
    const used = new Set([...this.pins.values()].map((other) => other.hue));
    let hue = 0;
    while (used.has(hue)) hue += 1;
    this.pins.set(pin.id, { ...pin, hue, text: "", unit: "", done: 0, steps: [], values: [] });
  }

  pin(panel, fx, fy) {
    const numbers = [...this.pins.keys()].filter(Number.isInteger);
    const id = Math.max(0, ...numbers) + 1;
    this.addPin({ id, panel, fx, fy });
    this.post({ type: "pin", id, panel, fx, fy });
    this.refresh();
  }

  unpin(id) {
    this.pins.delete(id);
    this.post({ type: "unpin", id });
    this.refresh();
  }

  receiveSeries(content, buffers) {
    const pin = this.pins.get(content.id);
    if (!pin) return;
    const [steps, values] = buffers.map((bytes) => numbersOf(Float64Array, bytes));
    Object.assign(pin, { text: content.text, unit: content.unit, done: content.done, steps, values });
    pin.times = buffers.length > 2 ? numbersOf(Float64Array, buffers[2]) : null;
    pin.xlabel = content.xlabel;
    this.redraw();
    this.refresh();
  }

  // --- colours ---

  can(what) {
    return !this.options.fixed?.includes(what);
  }

  limits(how, more = {}) {
    this.post({ type: "limits", how, colour: 0, i: this.index, ...more });
  }

  nextColour() {
    const at = CMAPS.indexOf(this.colours[0]?.cmap);
    this.post({ type: "colour", cmap: CMAPS[(at + 1) % CMAPS.length] });
  }

  nextNorm() {
    const at = NORMS.indexOf(this.colours[0]?.norm);
    this.post({ type: "norm", kind: NORMS[(at + 1) % NORMS.length] });
  }

  // --- painting ---

  relayout() {
    for (const view of this.views) view.relayout();
    this.refresh();
  }

  redraw() {
    for (const view of this.views) view.drawSeries();
    this.stalePaint = true;
    this.refresh();
  }

  /** Paint at the next animation frame; `all`: more than the playhead may have changed. */
  refresh(all = true) {
    this.touched ||= all;
    if (this.frameRequest || this.disposed) return;
    this.frameRequest = requestAnimationFrame((time) => this.animate(time));
  }

  animate(time) {
    this.frameRequest = 0;
    if (this.disposed) return;
    if (this.playing && this.visible && this.leader === this) this.advance(time);
    else {
      this.clock.reset();
      this.starving = false;
    }
    this.paint();
    if (this.playing && this.visible && !this.starving) this.refresh(false);
  }

  advance(time) {
    this.starving = false; // else it waits for a frame, which has it painted when it comes
    this.clock.tick(time, this.fps);
    let { due } = this.clock;
    let cost = null; // of the steps that are due, where they are not alike
    if (this.mode === "timed") [due, cost] = this.timedSteps();
    if (due < 1) return;
    const every = this.mode === "every";
    if (every) due = 1;
    let at = { index: this.index, direction: this.direction, ended: false };
    let taken = 0;
    while (taken < due && !at.ended) {
      const next = following(at.index, at.direction, this.order);
      if (every && !next.ended && !this.allReady(next.index)) {
        this.count(false);
        this.starving = true;
        break;
      }
      at = next;
      taken += 1;
      if (!every && this.due(at.index) && !this.ready(at.index)) this.starved = true;
    }
    this.clock.take(cost ?? (every ? taken : due));
    if (at.ended && this.attached && this.live.state === "writing") return;
    const moved = at.index !== this.index;
    this.index = at.index;
    this.direction = at.direction;
    if (moved) {
      const hit = this.ready(at.index);
      this.count(hit);
      this.counts.dropped += Math.max(0, taken - 1) + (hit ? 0 : 1);
      if (this.attached && at.index !== this.n - 1) this.attach(false);
      if (now() - this.lastReport >= PLAY_REPORT_MS) this.report();
      this.along((other) => other.place(this));
      this.playAsk();
    }
    if (at.ended) this.pause();
  }

  /** Frames that were asked for bring the next want with them; else frames come into reach. */
  playAsk() {
    const since = now() - this.wantedAt;
    if (this.mode !== "every" ? since > 100 : this.asked === null && since > this.patience) this.want();
  }

  /** Milliseconds in which a small part of what may be cached ahead is played. */
  get patience() {
    return Math.min(250, (this.capacity * 250) / Math.max(1, this.fps));
  }

  ready(i) {
    return this.failed.has(i) || this.cache.has(this.playView.id, i);
  }

  paint() {
    const frame = this.choose();
    const fresh = frame !== this.shown;
    this.shown = frame;
    const started = now();
    const all = this.touched || this.stalePaint;
    for (const view of this.views) view.paint(frame, { stale: this.stalePaint, all });
    this.stalePaint = false;
    this.touched = false;
    if (fresh && frame) {
      this.stale = null;
      const time = now();
      this.painted.add(time);
      this.counts.paint += 0.1 * (time - started - this.counts.paint);
    }
  }
}

function round(value, digits) {
  return Number(value.toFixed(digits));
}

/** Whether the reader has asked for less motion. */
function stillness() {
  return globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches === true;
}

