// The trajectory player: one module, no imports, no build step.
//
// Three parts, from the bottom up: pure parts (exported by name, tested under Node), `Player`
// (the state of one widget model: clock, cache, what to ask for) and `View` (the DOM of one
// display of it). The state belongs to the model, so two displays show one film.
//
// The kernel sends nothing that was not asked for. A `want` message lists the frames that are
// still missing, most wanted first, and replaces the one before it; nothing ever queues.

// --- Pure parts: order of play -------------------------------------------------------------------

const REST_MS = 120; // a scrub at rest for this long asks for the exact frame
const VALUES_MS = 250; // at rest for this long: exact values of the frame are asked for
const FILL_MS = 1000; // at rest for this long: the cache is filled, which a scrub would wait for
const ERROR_MS = 8000; // an error that is not about a frame is shown for so long
const BUSY_MS = 500; // no answer for this long: the kernel is busy
const GONE_MS = 4000; // no answer for this long of a kernel that has nothing to do: it does not know us
const DOUBT_MS = 1500; // after the host has lost or found a kernel
const LONGEST_STEP_S = 5; // in step with time: a gap between two frames is not waited for longer
const ASK_AGAIN_MS = 2000; // a want that was lost (the kernel was restarted) is sent again
const REPORT_MS = 250; // after a move the position is told to Python
const PLAY_REPORT_MS = 500; // how often it is told while playing
const STATS_MS = 1000;
const WORDS_MS = 50; // how often time and slider are renewed while playing
const COARSE_CELLS = 128 * 128;
const MOST_IN_FLIGHT = 16;
const IN_FLIGHT_BYTES = 8e6;
const RESTING_BYTES = 1.1e6;
const FRAME_OVERHEAD = 256; // bytes of bookkeeping a cached frame: bounds the count of tiny ones
const LIST_LENGTH = 48;
const AHEAD_PLAYING = 600;
const AHEAD_PAUSED = 4096;

/**
 * The frame after `index`: {index, direction, ended}. `order` holds n, loop and stride, and
 * `first` and `last` where only a part is played.
 */
export function following(index, direction, { n, loop, stride, first = 0, last = n - 1 }) {
  const within = (at) => at >= first && at <= last;
  const begin = direction > 0 ? first : last;
  if (!within(index)) return { index: begin, direction, ended: false };
  const next = index + direction * stride;
  if (within(next)) return { index: next, direction, ended: false };
  if (loop === "loop") return { index: begin, direction, ended: false };
  if (loop === "bounce") {
    const back = index - direction * stride;
    if (within(back)) return { index: back, direction: -direction, ended: false };
    return { index, direction, ended: false };
  }
  return { index, direction, ended: true };
}

/** The part that a press of the key for its start or its end leaves: [first, last], or []: all. */
export function markedPart(part, end, index, n) {
  const [first, last] = part.length === 2 ? part : [0, n - 1];
  const made = end === "in" ? [index, index < last ? last : n - 1] : [index > first ? first : 0, index];
  return made[0] === 0 && made[1] === n - 1 ? [] : made;
}

/** A rate in units of time a second, in words: dates and seconds as minutes, hours, days. */
export function simulated(rate, unit) {
  if (!Number.isFinite(rate) || rate <= 0) return "";
  if (unit !== "s" || rate < 120) return `${format(rate, 3)} ${unit}/s`;
  const [size, name] = [[31557600, "a"], [86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => rate >= 2 * size);
  return `${format(rate / size, 3)} ${name}/s`;
}

/** The entry of `sorted` (rising or falling) that is nearest to `value`. */
export function nearestIn(sorted, value) {
  const rising = sorted[0] <= sorted.at(-1);
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value === rising) low = middle;
    else high = middle;
  }
  return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
}

/** Up to `count` different frames in the order of play after `index`, every `skip`-th of them. */
export function upcoming(index, direction, order, count, skip = 1) {
  const found = [];
  const seen = new Set([index]);
  let at = { index, direction, ended: false };
  // a bounce passes every frame twice
  const most = Math.min(2 * Math.ceil(order.n / order.stride) + 2, (count + 2) * 2 * skip);
  for (let step = 1; step <= most && found.length < count; step += 1) {
    at = following(at.index, at.direction, order);
    if (at.ended) break;
    if (step % skip === 0 && !seen.has(at.index)) {
      seen.add(at.index);
      found.push(at.index);
    }
  }
  return found;
}

/** Time into steps. What is not taken stays, so the mean rate is kept whatever the display does. */
export class Clock {
  #last = null;
  #due = 0;

  reset() {
    this.#last = null;
    this.#due = 0;
  }

  /** Let time pass until `now` (milliseconds). */
  tick(now, fps) {
    const passed = this.#last === null ? 0 : now - this.#last;
    this.#last = now;
    // after a long pause of the page nothing is caught up with
    this.#due = passed > 1000 ? 1 : this.#due + (passed * fps) / 1000;
  }

  /** Whole steps that are due. A quarter of a step early is due: displays are not exact. */
  get due() {
    return Math.floor(this.#due + 0.25);
  }

  /** Steps that are due, with the part of the next one. */
  get owed() {
    return this.#due + 0.25;
  }

  /** Take `steps`; at most one step stays owed, so that waiting is not followed by a rush. */
  take(steps) {
    this.#due = Math.min(this.#due - steps, 1);
  }
}

// --- Pure parts: the cache -----------------------------------------------------------------------

/** How far frame `i` is from being played, frames behind counting three times. */
export function distance(i, index, direction, n, loop, first = 0, last = n - 1) {
  if (index < first || index > last) [first, last] = [0, n - 1]; // somebody looks at the rest
  if (i < first || i > last) return 4 * n + Math.abs(i - index);
  const ahead = (i - index) * direction;
  if (loop === "loop") {
    const length = last - first + 1;
    const round = ((ahead % length) + length) % length;
    return Math.min(round, 3 * (length - round));
  }
  return ahead >= 0 ? ahead : -3 * ahead;
}

/** Frames by view and index, bounded in bytes; the farthest from the playhead go first. */
export class FrameCache {
  #frames = new Map(); // view id -> index -> frame

  constructor(limit) {
    this.limit = limit;
    this.bytes = 0;
    this.changes = 0; // lets the bar of cached frames know when to draw
  }

  get(view, i) {
    return this.#frames.get(view)?.get(i);
  }

  has(view, i) {
    return this.#frames.get(view)?.has(i) === true;
  }

  indices(view) {
    return this.#frames.get(view)?.keys() ?? [];
  }

  get count() {
    let count = 0;
    for (const frames of this.#frames.values()) count += frames.size;
    return count;
  }

  put(view, i, frame) {
    let frames = this.#frames.get(view);
    if (!frames) this.#frames.set(view, (frames = new Map()));
    const old = frames.get(i);
    if (old) this.bytes -= old.bytes + FRAME_OVERHEAD;
    frames.set(i, frame);
    this.bytes += frame.bytes + FRAME_OVERHEAD;
    this.changes += 1;
  }

  clear() {
    this.#frames.clear();
    this.bytes = 0;
    this.changes += 1;
  }

  /** A frame of any view for `i`, the views in the order given. */
  best(views, i) {
    for (const view of views) {
      const frame = this.get(view, i);
      if (frame) return frame;
    }
    return undefined;
  }

  /** The cached frame nearest to `i` among these views. */
  nearest(views, i) {
    let best;
    let least = Infinity;
    for (const view of views) {
      for (const [at, frame] of this.#frames.get(view) ?? []) {
        const apart = Math.abs(at - i);
        if (apart < least && !frame.failed) {
          least = apart;
          best = frame;
        }
      }
    }
    return best;
  }

  /**
   * Give up frames until a twentieth below the limit, if above it. `kept` are the views in use;
   * frames of others go first.
   */
  evict({ index, direction, n, loop, first, last, kept }) {
    if (this.bytes <= this.limit) return;
    const costs = [];
    for (const [view, frames] of this.#frames) {
      const foreign = kept.includes(view) ? 0 : Number.MAX_SAFE_INTEGER / 4;
      for (const i of frames.keys()) {
        costs.push({ view, i, cost: foreign + distance(i, index, direction, n, loop, first, last) });
      }
    }
    costs.sort((a, b) => b.cost - a.cost);
    const goal = this.limit * 0.95;
    for (const { view, i, cost } of costs) {
      if (this.bytes <= goal || cost === 0) break;
      const frames = this.#frames.get(view);
      this.bytes -= frames.get(i).bytes + FRAME_OVERHEAD;
      frames.delete(i);
      if (frames.size === 0) this.#frames.delete(view);
    }
    this.changes += 1;
  }
}

/** Share of each of `cells` equal pieces of 0..n-1 that is among `indices`. */
export function coverage(indices, n, cells) {
  const share = new Float32Array(cells);
  for (const i of indices) {
    if (i >= n) continue;
    const first = (i * cells) / n;
    const stop = ((i + 1) * cells) / n;
    for (let cell = Math.floor(first); cell < stop && cell < cells; cell += 1) {
      share[cell] += Math.min(stop, cell + 1) - Math.max(first, cell);
    }
  }
  return share;
}

// --- Pure parts: rates ---------------------------------------------------------------------------

/** The least of the last sixteen: the round trip without the wait behind other frames. */
export class RoundTrip {
  #last = [];

  add(ms) {
    this.#last.push(ms);
    if (this.#last.length > 16) this.#last.shift();
  }

  get ms() {
    return this.#last.length ? Math.min(...this.#last) : 50;
  }
}

/** Times of the last events: their rate and the gaps between them. Allocates nothing a frame. */
export class Rate {
  #times = new Float64Array(128);
  #count = 0;

  add(now) {
    this.#times[this.#count % 128] = now;
    this.#count += 1;
  }

  reset() {
    this.#count = 0;
  }

  /** Events a second over the last two seconds; 0 with less than three of them. */
  perSecond(now) {
    let within = 0;
    let first = now;
    let last = 0;
    for (let k = Math.max(0, this.#count - 128); k < this.#count; k += 1) {
      const time = this.#times[k % 128];
      if (now - time > 2000) continue;
      within += 1;
      first = Math.min(first, time);
      last = Math.max(last, time);
    }
    return within < 3 ? 0 : ((within - 1) * 1000) / (last - first);
  }

  /** The gap that nineteen of twenty stay below, in milliseconds. */
  gap95() {
    const kept = Math.min(this.#count, 128);
    if (kept < 3) return 0;
    const gaps = [];
    for (let k = this.#count - kept + 1; k < this.#count; k += 1) {
      gaps.push(this.#times[k % 128] - this.#times[(k - 1) % 128]);
    }
    gaps.sort((a, b) => a - b);
    return gaps[Math.floor(gaps.length * 0.95)];
  }
}

/**
 * Frames that may be under way at once. At rest few bytes, so that a scrub waits for little. Where
 * `every` frame is played twice what a round trip takes, since half of them are asked for at a
 * time; where frames can come too late, no more than it takes.
 */
export function credits({ playing, every, rtt, fps, bytes }) {
  const trip = Math.ceil((rtt * fps) / 1000);
  const wanted = playing ? Math.min(MOST_IN_FLIGHT, every ? 2 * trip + 8 : trip + 2) : 4;
  const most = playing ? IN_FLIGHT_BYTES : RESTING_BYTES;
  return Math.max(1, Math.min(wanted, Math.floor(most / Math.max(bytes, 1))));
}

/** Every how many-th frame can be had in real time: `fps` asked for, `rate` what arrives. */
export function skipOf(fps, rate) {
  return rate > 0 ? Math.max(1, Math.ceil((fps * 0.9) / rate)) : 1;
}

// --- Pure parts: bytes ---------------------------------------------------------------------------

/** Whether the sixteen bytes 0..15 arrived as they were sent. */
export function intact(buffers) {
  const bytes = buffers?.length === 1 ? bytesOf(buffers[0]) : null;
  return bytes !== null && bytes.length === 16 && bytes.every((byte, k) => byte === k);
}

/** Bytes of a DataView, an ArrayBuffer or a typed array, without a copy where that is sparing. */
export function bytesOf(buffer) {
  if (buffer instanceof ArrayBuffer) return new Uint8Array(buffer);
  if (!ArrayBuffer.isView(buffer)) return null;
  const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  // a small piece must not keep a big message alive
  return buffer.buffer.byteLength > 2 * bytes.length ? bytes.slice() : bytes;
}

/** The same bytes as `Type`; copied only where they are not aligned. */
export function numbersOf(Type, bytes) {
  const width = Type.BYTES_PER_ELEMENT;
  const whole = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  return new Type(whole.buffer, whole.byteOffset, Math.floor(whole.byteLength / width));
}

export function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k += 1) bytes[k] = raw.charCodeAt(k);
  return bytes;
}

/** Buffers of a message: its own, or those in its text where a host cannot carry binary. */
export function buffersOf(content, buffers) {
  if (Array.isArray(content.data)) return content.data.map(fromBase64);
  return (buffers ?? []).map(bytesOf);
}

/** Puts the parts of a frame together that came in several messages. */
export class Parts {
  #open = new Map();

  /** Buffers of the whole frame once all of it is there, else null. */
  add(item, buffers, itemsize) {
    if (!item.rows) return buffers;
    const key = `${item.ver}/${item.view}/${item.i}/${item.fmt}`;
    let open = this.#open.get(key);
    if (!open) {
      open = {
        missing: item.shapes.reduce((sum, [rows]) => sum + rows, 0),
        buffers: item.shapes.map(([rows, columns]) => new Uint8Array(rows * columns * itemsize)),
      };
      this.#open.set(key, open);
    }
    item.rows.forEach(([first, stop], panel) => {
      open.buffers[panel].set(buffers[panel], first * item.shapes[panel][1] * itemsize);
      open.missing -= stop - first;
    });
    if (open.missing > 0) return null;
    this.#open.delete(key);
    return open.buffers;
  }

  clear() {
    this.#open.clear();
  }
}

// --- Pure parts: colours -------------------------------------------------------------------------

/** The tables of `luts` as 256 RGBA pixels each. */
export function tables(luts) {
  const bytes = luts ? bytesOf(luts) : new Uint8Array(0);
  const all = [];
  for (let first = 0; first + 1024 <= bytes.length; first += 1024) {
    all.push(new Uint32Array(bytes.slice(first, first + 1024).buffer));
  }
  return all;
}

/** Codes through a table into pixels. */
export function colour(codes, table, pixels) {
  const count = Math.min(codes.length, pixels.length);
  for (let k = 0; k < count; k += 1) pixels[k] = table[codes[k]];
}

// --- Pure parts: windows -------------------------------------------------------------------------

export const WHOLE = [0, 0, 1, 1]; // left, top, right, bottom inside; [l, r, t, b] on the wire

/** Cells that fall onto one pixel, at least one. */
export function lodOf(rows, columns, window, width, height, ratio) {
  const [left, top, right, bottom] = window ?? WHOLE;
  const across = (columns * (right - left)) / Math.max(1, width * ratio);
  const down = (rows * (bottom - top)) / Math.max(1, height * ratio);
  return Math.max(1, Math.floor(Math.min(across, down)));
}

/** `window` enlarged or shrunk by `factor` about a point of it (fractions 0..1); null: whole. */
export function zoomed(window, fx, fy, factor, least = 1e-4) {
  const [left, top, right, bottom] = window ?? WHOLE;
  const width = Math.min(1, Math.max(least, (right - left) * factor));
  const height = Math.min(1, Math.max(least, (bottom - top) * factor));
  const x = left + fx * (right - left) - fx * width;
  const y = top + fy * (bottom - top) - fy * height;
  return inside([x, y, x + width, y + height]);
}

/** The window moved back inside the picture; null for the whole. */
export function inside([left, top, right, bottom]) {
  const width = right - left;
  const height = bottom - top;
  if (width >= 1 && height >= 1) return null;
  const x = Math.min(Math.max(left, 0), 1 - width);
  const y = Math.min(Math.max(top, 0), 1 - height);
  return [x, y, x + width, y + height];
}

// --- Pure parts: numbers and words ---------------------------------------------------------------

/** A number with `digits` significant digits at most and a real minus sign. */
export function format(value, digits = 6) {
  if (value === null || value === undefined || Number.isNaN(value)) return "no data";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  let text;
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) {
    text = value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  } else {
    text = value.toPrecision(digits);
    if (text.includes("e")) text = String(Number(text));
    else if (text.includes(".")) text = text.replace(/\.?0+$/, "");
  }
  return text.replace(/-/g, "−");
}

/** Ticks at round numbers: [[fraction of lo..hi, label], ...] in the order of lo..hi. */
export function ticksOf(lo, hi, count) {
  if (!Number.isFinite(lo) || !Number.isFinite(hi) || lo === hi) return [];
  const [low, high] = lo < hi ? [lo, hi] : [hi, lo];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const large = Math.max(Math.abs(low), Math.abs(high));
  const scientific = large >= 1e6 || decimals > 6;
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
    const value = k * step;
    const digits = Math.max(1, Math.round(Math.log10(large / step)) + 2);
    const label = scientific
      ? format(value, Math.min(15, digits))
      : value.toFixed(decimals).replace("-", "−");
    ticks.push([(value - lo) / (hi - lo) + 0, k === 0 ? (0).toFixed(scientific ? 0 : decimals) : label]);
  }
  return lo < hi ? ticks : ticks.reverse();
}

/** What a screen reader says at the slider. */
export function spoken(index, n, label) {
  return `step ${index + 1} of ${n}` + (label ? `, ${label}` : "");
}

/** The unit in "temperature [K]". */
export function unitOf(label) {
  return /\[([^\]]*)\]\s*$/.exec(label ?? "")?.[1] ?? "";
}

/** A share as a percentage: "0", "<0.1 %", "12 %". */
export function percent(share) {
  if (share === 0) return "0 %";
  if (share < 0.001) return "<0.1 %";
  return share < 0.1 ? `${(share * 100).toFixed(1)} %` : `${Math.round(share * 100)} %`;
}

const SPEEDS = [1, 2, 3, 5, 8, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 90, 120];

/** The next faster (`by` 1) or slower (-1) speed. */
export function speedOf(fps, by) {
  if (by > 0) return SPEEDS.find((speed) => speed > fps) ?? SPEEDS.at(-1);
  return SPEEDS.findLast((speed) => speed < fps) ?? SPEEDS[0];
}

const KEYS = {
  " ": "play",
  Home: "first",
  End: "last",
  "+": "faster",
  "=": "faster",
  "-": "slower",
  l: "loop",
  r: "reverse",
  m: "mode",
  "[": "in",
  "]": "out",
  i: "in",
  o: "out",
  x: "all",
  c: "colour",
  n: "norm",
  a: "auto",
  f: "full",
  s: "save",
  t: "telemetry",
  0: "unzoom",
  "?": "help",
  Escape: "leave",
};

/**
 * Whether the kernel is "busy" or "gone", or "" while all is well. `kernel` is what the host
 * tells of it: undefined where it tells nothing, null where there is none.
 */
export function kernelState(kernel, waiting) {
  if (kernel === null || kernel?.isDisposed || kernel?.connectionStatus === "disconnected") return "gone";
  if (["dead", "terminating", "restarting", "autorestarting"].includes(kernel?.status)) return "gone";
  if (kernel?.status === "idle" && waiting > GONE_MS) return "gone";
  return waiting > BUSY_MS ? "busy" : "";
}

/** What a key press means, or null: with Ctrl, Alt or Meta it is somebody else's. */
export function commandOf({ key, shiftKey, ctrlKey, altKey, metaKey }) {
  if (altKey && !metaKey && (key === "[" || key === "]")) return KEYS[key]; // as many keyboards have them
  if (ctrlKey || altKey || metaKey) return null;
  if (key === "ArrowLeft") return shiftKey ? "back10" : "back";
  if (key === "ArrowRight") return shiftKey ? "forward10" : "forward";
  const lower = key.length === 1 ? key.toLowerCase() : key;
  return Object.hasOwn(KEYS, lower) ? KEYS[lower] : null;
}

// --- The state of one widget model ---------------------------------------------------------------

const CMAPS = ["viridis", "magma", "cividis", "turbo", "RdBu_r", "gray"];
const NORMS = ["linear", "log", "symlog"];
const REDUCTIONS = { mean: "mean", max: "largest", min: "smallest", absmax: "farthest from 0" };
const LOOPS = ["loop", "bounce", "once"];
const FLOATS_BYTES = 2e6; // more than that would hold up the next scrub

const GROUPS = Symbol.for("binref_sci.players");

const now = () => performance.now();

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

// --- DOM: pieces ---------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  play: "M5 3.2v9.6a.6.6 0 0 0 .92.5l7.4-4.8a.6.6 0 0 0 0-1L5.92 2.7A.6.6 0 0 0 5 3.2z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  back: "M10.5 3.2v9.6L3.8 8zM11.5 3h1.6v10h-1.6z",
  forward: "M5.5 3.2v9.6L12.2 8zM2.9 3h1.6v10H2.9z",
  first: "M13 3.2v9.6L7 8zM7.6 3.2v9.6L1.6 8zM1 3h1.4v10H1z",
  last: "M3 3.2v9.6L9 8zM8.4 3.2v9.6L14.4 8zM13.6 3H15v10h-1.4z",
  loop: "M12.6 6.2A5 5 0 0 0 3.6 5.4L2.4 4.2V8h3.8L4.7 6.5a3.4 3.4 0 0 1 6.3.3zM3.4 9.8a5 5 0 0 0 9 .8l1.2 1.2V8H9.8l1.5 1.5a3.4 3.4 0 0 1-6.3-.3z",
  bounce: "M1 8l3.6-3.4v2.5h6.8V4.6L15 8l-3.6 3.4V8.9H4.6v2.5z",
  once: "M1.5 7.1h7.4V4.6L12.5 8l-3.6 3.4V8.9H1.5zM13 3.6h1.5v8.8H13z",
  part: "M2 3h4v1.5H3.6v7H6V13H2zM14 3h-4v1.5h2.4v7H10V13h4zM6.6 5.4v5.2L11 8z",
  reverse: "M14.5 7.1H6.6V4.2L1.5 8l5.1 3.8V8.9h7.9z",
  gauge: "M2 13V9h2.2v4zM6.9 13V3h2.2v10zM11.8 13V6H14v7z",
  save: "M7.2 2h1.6v6l2.2-2.2 1.1 1.1L8 11 3.9 6.9 5 5.8 7.2 8zM2.5 12.4h11V14h-11z",
  help: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zm0 1.4a5.1 5.1 0 1 1 0 10.2A5.1 5.1 0 0 1 8 2.9zm-.8 7.7h1.6v1.5H7.2zM8 4.2c-1.5 0-2.5.9-2.6 2.3h1.5c.1-.6.5-1 1.1-1s1 .4 1 .9c0 .9-1.8 1-1.8 2.8v.5h1.5v-.3c0-1.1 1.9-1.3 1.9-3.1 0-1.2-1-2.1-2.6-2.1z",
  palette: "M8 1.8a6.2 6.2 0 0 0 0 12.4c1 0 1.5-.7 1.5-1.4 0-.9-.7-1.1-.7-1.8 0-.6.5-1 1.2-1h1.3a2.9 2.9 0 0 0 2.9-2.9C14.2 4.1 11.4 1.8 8 1.8zM4.6 9a1 1 0 1 1 0-2 1 1 0 0 1 0 2zm1.8-3a1 1 0 1 1 0-2 1 1 0 0 1 0 2zm3.4 0a1 1 0 1 1 0-2 1 1 0 0 1 0 2z",
};

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "path"));
  setIcon(svg, name);
  return svg;
}

function setIcon(svg, name) {
  if (svg.dataset.icon === name) return;
  svg.dataset.icon = name;
  svg.firstChild.setAttribute("d", ICONS[name]);
}

/** Set text only where it changes: no layout for nothing. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function attribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

function flag(node, name, value) {
  if (node.dataset[name] !== value) node.dataset[name] = value;
}

function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/** A drawing context of `canvas`, made as large as `width` x `height` CSS pixels need; empty. */
function sheetOf(canvas, width, height, ratio) {
  const across = Math.max(1, Math.round(width * ratio));
  const down = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A canvas of `width` x `height` CSS pixels at the resolution of the display; its context. */
function prepare(canvas, width, height, ratio) {
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  return sheetOf(canvas, width, height, ratio);
}

/**
 * Draw what changes seldom. A canvas that was drawn on is copied anew with each frame of the page;
 * one that was given a picture is not.
 */
function drawn(canvas, width, height, ratio, draw) {
  if (!globalThis.OffscreenCanvas) {
    draw(prepare(canvas, width, height, ratio));
    return;
  }
  const sheet = new OffscreenCanvas(1, 1);
  draw(sheetOf(sheet, width, height, ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = sheet.width;
  canvas.height = sheet.height;
  canvas.getContext("bitmaprenderer").transferFromImageBitmap(sheet.transferToImageBitmap());
}

const CURVES = {
  light: ["#0b62b8", "#c2410c", "#0f766e", "#9d2f7f", "#7a5c00", "#4a4a9c", "#b3261e", "#3f6212"],
  dark: ["#6cb2ff", "#ff9d5c", "#4fd1c0", "#f08bd0", "#e3c04a", "#a9a6ff", "#ff8a80", "#b5d96a"],
};

/** Light or dark: what the host says, else what the system prefers. */
function darkness(theme) {
  if (theme === "dark" || theme === "light") return theme === "dark";
  const { body, documentElement: root } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
  if (body.classList.contains("vscode-dark") || body.classList.contains("vscode-high-contrast")) return true;
  if (body.classList.contains("vscode-light")) return false;
  const named = root.dataset.theme ?? root.getAttribute("theme");
  if (named === "dark" || named === "light") return named === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** What the drawings on canvases take from the style sheet. */
function inks(root) {
  const style = getComputedStyle(root);
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    text: read("--br-text"),
    muted: read("--br-muted"),
    line: read("--br-line"),
    accent: read("--br-accent"),
    ground: read("--br-ground"),
    track: read("--br-track"),
    cached: read("--br-cached"),
    font: style.fontFamily,
    curves: CURVES[root.dataset.theme] ?? CURVES.light,
  };
}

// --- DOM: drawings -------------------------------------------------------------------------------

const TICK = 4;
const SMALL = 11;
const MOST_NAMED = 8; // curves in a legend: as many as there are colours
const MEDIUM = 12;

/** Ticks of an axis inside the window from..to (fractions along the axis): [[0..1, label], ...]. */
export function axisTicks(axis, from, to, count) {
  if (axis.ticks) {
    return axis.ticks
      .map(([at, label]) => [(at - from) / (to - from), label])
      .filter(([at]) => at >= -1e-9 && at <= 1 + 1e-9);
  }
  const span = axis.hi - axis.lo;
  return ticksOf(axis.lo + from * span, axis.lo + to * span, count);
}

/** Leave out labels that would touch: ticks in order, `size(label)` pixels each, over `length`. */
export function sparse(ticks, length, size, gap = 8) {
  const kept = [];
  let free = -Infinity;
  for (const [at, label] of [...ticks].sort((a, b) => a[0] - b[0])) {
    const half = size(label) / 2;
    if (at * length - half < free) continue;
    kept.push([at, label]);
    free = at * length + half + gap;
  }
  return kept;
}

/** Frame, ticks and labels around `box` = {x, y, width, height}. */
function drawAxes(context, box, { x, y, title, showX, showY, xTicks, yTicks, inks: ink }) {
  const { font } = ink;
  context.strokeStyle = ink.line;
  context.lineWidth = 1;
  context.strokeRect(box.x - 0.5, box.y - 0.5, box.width + 1, box.height + 1);
  context.font = `${SMALL}px ${font}`;
  context.fillStyle = ink.muted;
  context.textBaseline = "top";
  context.textAlign = "center";
  context.beginPath();
  const below = box.y + box.height;
  const measured = sparse(xTicks, box.width, (label) => context.measureText(label).width);
  for (const [at] of xTicks) {
    const across = Math.round(box.x + at * box.width) + (at === 1 ? 0.5 : -0.5);
    context.moveTo(across, below + 1);
    context.lineTo(across, below + 1 + TICK);
  }
  for (const [at] of yTicks) {
    const down = Math.round(box.y + (1 - at) * box.height) + (at === 0 ? 0.5 : -0.5);
    context.moveTo(box.x - 1, down);
    context.lineTo(box.x - 1 - TICK, down);
  }
  context.stroke();
  if (showX) {
    for (const [at, label] of measured) context.fillText(label, box.x + at * box.width, below + TICK + 4);
  }
  if (showY) {
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [at, label] of sparse(yTicks, box.height, () => SMALL, 4)) {
      context.fillText(label, box.x - TICK - 4, box.y + (1 - at) * box.height);
    }
  }
  context.fillStyle = ink.text;
  context.font = `${MEDIUM}px ${font}`;
  context.textAlign = "center";
  if (showX && x) {
    context.textBaseline = "top";
    fitText(context, x, box.x + box.width / 2, below + TICK + 6 + SMALL + 3, box.width);
  }
  if (showY && y) {
    context.save();
    context.translate(MEDIUM / 2 + 2, box.y + box.height / 2);
    context.rotate(-Math.PI / 2);
    context.textBaseline = "middle";
    fitText(context, y, 0, 0, box.height);
    context.restore();
  }
  if (title) {
    context.textBaseline = "alphabetic";
    fitText(context, title, box.x + box.width / 2, box.y - 7, box.width);
  }
}

/** Text shortened in its middle to fit. */
function fitText(context, text, x, y, width) {
  let shown = text;
  let keep = text.length;
  while (context.measureText(shown).width > width && keep > 6) {
    keep -= 1;
    shown = `${text.slice(0, Math.ceil(keep / 2))}…${text.slice(text.length - Math.floor(keep / 2))}`;
  }
  context.fillText(shown, x, y);
}

/** The colour bar into `box`: its colours, a triangle for what lies outside, its ticks. */
function drawBar(context, box, { colours, table, vertical, bad, inks: ink }) {
  const { x, y, width, height } = box;
  const length = vertical ? height : width;
  const thick = vertical ? width : height;
  const above = colours.extend === "max" || colours.extend === "both";
  const below = colours.extend === "min" || colours.extend === "both";
  const tip = Math.round(thick * 0.8);
  const first = below ? tip : 0;
  const inner = length - first - (above ? tip : 0);
  // along: from the low end; a point of the bar at (along, across)
  const point = vertical
    ? (along, across) => [x + across, y + height - along]
    : (along, across) => [x + along, y + across];
  const css = (code) => {
    const pixel = table[code];
    return `rgba(${pixel & 255},${(pixel >> 8) & 255},${(pixel >> 16) & 255},${(pixel >>> 24) / 255})`;
  };
  const shape = (...points) => {
    context.beginPath();
    points.forEach(([along, across], k) => context[k ? "lineTo" : "moveTo"](...point(along, across)));
    context.closePath();
  };
  for (let code = 2; code <= 254; code += 1) {
    const from = first + ((code - 2) * inner) / 253;
    const to = Math.min(first + inner, first + ((code - 1) * inner) / 253 + 1.5); // no seams
    context.fillStyle = css(code);
    shape([from, 0], [to, 0], [to, thick], [from, thick]);
    context.fill();
  }
  if (below) {
    context.fillStyle = css(1);
    shape([0, thick / 2], [tip, 0], [tip, thick]);
    context.fill();
  }
  if (above) {
    context.fillStyle = css(255);
    shape([length, thick / 2], [length - tip, 0], [length - tip, thick]);
    context.fill();
  }
  context.strokeStyle = ink.line;
  context.lineWidth = 1;
  let widest = 0;
  const outline = [[first, 0]];
  if (below) outline.push([0, thick / 2]);
  outline.push([first, thick], [first + inner, thick]);
  if (above) outline.push([length, thick / 2]);
  outline.push([first + inner, 0]);
  shape(...outline);
  context.stroke();

  context.font = `${SMALL}px ${ink.font}`;
  context.fillStyle = ink.muted;
  const size = (label) => (vertical ? SMALL + 2 : context.measureText(label).width);
  for (const [at, label] of sparse(colours.ticks ?? [], inner, size, 4)) {
    const [tx, ty] = point(first + at * inner, thick);
    widest = Math.max(widest, context.measureText(label).width);
    context.beginPath();
    context.moveTo(tx, ty);
    context.lineTo(...(vertical ? [tx + TICK, ty] : [tx, ty + TICK]));
    context.stroke();
    context.textAlign = vertical ? "left" : "center";
    context.textBaseline = vertical ? "middle" : "top";
    const half = context.measureText(label).width / 2;
    const right = context.canvas.width / context.getTransform().a;
    const across = vertical ? tx + TICK + 3 : Math.min(Math.max(tx, half), right - half); // not cut off
    context.fillText(label, across, ty + (vertical ? 0 : TICK + 3));
  }
  context.fillStyle = ink.text;
  context.font = `${MEDIUM}px ${ink.font}`;
  const label = `${colours.about ? "≈ " : ""}${colours.label ?? ""}`;
  context.textAlign = "center";
  if (vertical) {
    context.save();
    context.translate(x + width + TICK + 3 + widest + MEDIUM, y + height / 2);
    context.rotate(Math.PI / 2);
    context.textBaseline = "middle";
    fitText(context, label, 0, 0, height);
    context.restore();
  } else {
    context.textBaseline = "top";
    fitText(context, label, x + width / 2, y + height + TICK + SMALL + 6, width);
  }
  if (bad && vertical) {
    context.fillStyle = css(0);
    context.fillRect(x, y + height + 10, width, 10);
    context.strokeRect(x + 0.5, y + height + 10.5, width - 1, 9);
    context.font = `${SMALL}px ${ink.font}`;
    context.fillStyle = ink.muted;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText("no data", x + width + TICK + 3, y + height + 15.5);
  }
}

/** One curve: `xs(k)`, `ys(k)` in pixels; NaN lifts the pen. Dense curves keep their envelope. */
function drawCurve(context, count, xs, ys, width) {
  context.beginPath();
  let down = false;
  if (count > 4 * width) {
    const bin = count / width;
    for (let pixel = 0; pixel < width; pixel += 1) {
      let low = Infinity;
      let high = -Infinity;
      const stop = Math.floor((pixel + 1) * bin);
      for (let k = Math.floor(pixel * bin); k < stop; k += 1) {
        const value = ys(k);
        if (value < low) low = value;
        if (value > high) high = value;
      }
      if (low > high) {
        down = false;
        continue;
      }
      const across = xs(Math.floor(pixel * bin));
      if (down) context.lineTo(across, high);
      else context.moveTo(across, high);
      context.lineTo(across, low);
      down = true;
    }
  } else {
    for (let k = 0; k < count; k += 1) {
      const value = ys(k);
      if (Number.isNaN(value)) {
        down = false;
        continue;
      }
      if (down) context.lineTo(xs(k), value);
      else context.moveTo(xs(k), value);
      down = true;
    }
  }
  context.stroke();
}

// --- DOM: one panel ------------------------------------------------------------------------------

/** A picture (or curves) with its axes; what moves lies above it as plain elements. */
class Panel {
  constructor(view, index) {
    this.view = view;
    this.index = index;
    this.images = new Map(); // shape -> ImageData and its pixels: nothing is allocated a frame
    this.axes = element("canvas", { class: "br-axes", "aria-hidden": "true" });
    this.picture = element("canvas", { class: "br-picture", role: "img" });
    this.context = this.picture.getContext("2d");
    this.marks = element("div", { class: "br-marks", "aria-hidden": "true" });
    this.band = element("div", { class: "br-band", hidden: true });
    this.marks.append(this.band);
    this.note = element("p", { class: "br-note", hidden: true });
    this.legend = element("div", { class: "br-legend" });
    this.box = element("div", { class: "br-box" }, this.picture, this.marks, this.legend, this.note);
    flag(this.box, "kind", view.player.scene.kind);
    this.bar = element("canvas", { class: "br-own-bar", role: "img", hidden: true });
    this.node = element("div", { class: "br-panel" }, this.axes, this.box, this.bar);
    this.frame = null;
    this.listen();
  }

  get player() {
    return this.view.player;
  }

  get scene() {
    return this.player.scene.panels[this.index];
  }

  get line() {
    return this.player.scene.kind === "line";
  }

  get colours() {
    return this.player.colours[this.scene.colour] ?? {};
  }

  // --- layout ---

  /** Axes of the panel in the present window, with ticks for about this many pixels. */
  scales(width, height) {
    const { x, y } = this.scene;
    const [left, top, right, bottom] = this.player.window ?? WHOLE;
    const upright = this.line ? this.valueAxis() : y;
    return {
      x: x.label,
      y: upright.label,
      xTicks: axisTicks(x, left, right, Math.max(2, width / 90)),
      yTicks: axisTicks(upright, 1 - bottom, 1 - top, Math.max(2, height / 60)),
    };
  }

  valueAxis() {
    const { vmin = 0, vmax = 1, label = "" } = this.colours;
    const margin = (vmax - vmin) * 0.04;
    return { lo: vmin - margin, hi: vmax + margin, label: this.scene.y?.label || label };
  }

  place({ margins, width, height, showX, showY, title, barHeight }) {
    const { ratio, inks: ink } = this.view;
    const whole = { width: margins.left + width + margins.right, height: margins.top + height + margins.bottom };
    this.size = { width, height };
    this.node.style.width = `${whole.width}px`;
    this.node.style.height = `${whole.height}px`;
    Object.assign(this.box.style, {
      left: `${margins.left}px`,
      top: `${margins.top}px`,
      width: `${width}px`,
      height: `${height}px`,
    });
    const box = { x: margins.left, y: margins.top, width, height };
    drawn(this.axes, whole.width, whole.height, ratio, (context) => {
      drawAxes(context, box, { ...this.scales(width, height), title, showX, showY, inks: ink });
    });
    show(this.bar, barHeight > 0);
    if (barHeight > 0) {
      this.bar.style.top = `${whole.height - barHeight}px`;
      this.drawOwnBar(margins, width, barHeight);
    }
    if (this.line) {
      prepare(this.picture, width, height, ratio);
      this.drawLegend();
    }
    this.drawPins();
    this.frame = null;
  }

  // --- painting ---

  paint(frame) {
    if (this.line) this.paintCurves(frame);
    else this.paintCodes(frame);
    this.frame = frame;
  }

  paintCodes(frame) {
    const table = this.player.tables[this.scene.colour];
    const shape = frame.shapes[this.index];
    const codes = frame.codes?.[this.index];
    if (!table || !codes) return;
    const [rows, columns] = shape;
    if (rows === 0 || columns === 0) return; // an axis without cells: nothing to paint
    const key = rows * 1e6 + columns;
    let image = this.images.get(key);
    if (!image) {
      if (this.images.size > 3) this.images.clear();
      const data = new ImageData(columns, rows);
      image = { data, pixels: new Uint32Array(data.data.buffer) };
      this.images.set(key, image);
    }
    if (this.picture.width !== columns) this.picture.width = columns;
    if (this.picture.height !== rows) this.picture.height = rows;
    colour(codes, table, image.pixels);
    this.context.putImageData(image.data, 0, 0);
    this.fit(frame);
  }

  /** Lay the frame, which shows its own window, into the window that is looked at. */
  fit(frame) {
    const [left, right, top, bottom] = frame.window ?? [0, 1, 0, 1];
    const [l, t, r, b] = this.player.window ?? WHOLE;
    const { width, height } = this.size;
    const place =
      `${((left - l) / (r - l)) * width},${((top - t) / (b - t)) * height},` +
      `${((right - left) / (r - l)) * width},${((bottom - top) / (b - t)) * height}`;
    if (place === this.placed) return;
    this.placed = place;
    const [x, y, across, down] = place.split(",");
    Object.assign(this.picture.style, { left: `${x}px`, top: `${y}px`, width: `${across}px`, height: `${down}px` });
    flag(this.picture, "shrunk", across < this.picture.width ? "1" : "0");
  }

  paintCurves(frame) {
    const values = frame.values?.[this.index];
    if (!values || !this.size) return;
    const { width, height } = this.size;
    const context = prepare(this.picture, width, height, this.view.ratio);
    const [curves, points] = frame.shapes[this.index];
    const [l, t, r, b] = this.player.window ?? WHOLE;
    const { lo, hi } = this.valueAxis();
    const [from, to] = frame.window ?? [0, 1];
    const coords = this.player.coords[this.index];
    const { x } = this.scene;
    const lod = frame.lod ?? 1;
    const first = coords ? Math.round(from * coords.length) : 0;
    const along = (k) => {
      if (coords && coords.length >= points) {
        const at = coords[Math.min(first + k * lod, coords.length - 1)];
        return (at - x.lo) / (x.hi - x.lo);
      }
      return from + ((k + 0.5) / points) * (to - from);
    };
    const xs = (k) => ((along(k) - l) / (r - l)) * width;
    context.lineWidth = 1.6;
    context.lineJoin = "round";
    for (let curve = 0; curve < curves; curve += 1) {
      context.strokeStyle = this.view.inks.curves[curve % this.view.inks.curves.length];
      const offset = curve * points;
      const ys = (k) => {
        const up = (values[offset + k] - lo) / (hi - lo);
        return ((1 - up - t) / (b - t)) * height;
      };
      drawCurve(context, points, xs, ys, Math.round(width * this.view.ratio));
    }
  }

  drawOwnBar(margins, width, barHeight) {
    const colours = this.view.scaleOf(this.scene.colour);
    const table = this.player.tables[this.scene.colour];
    if (!table) return;
    const box = { x: margins.left, y: 6, width, height: 10 };
    attribute(this.bar, "aria-label", barLabel(colours));
    drawn(this.bar, margins.left + width + margins.right, barHeight, this.view.ratio, (context) => {
      drawBar(context, box, { colours, table, vertical: false, bad: false, inks: this.view.inks });
    });
  }

  drawLegend() {
    const { lines = [] } = this.scene;
    const { curves } = this.view.inks;
    const names = lines.slice(0, MOST_NAMED).map((label, k) => {
      const dash = element("span", { class: "br-dash" });
      dash.style.background = curves[k % curves.length];
      return element("span", {}, dash, label);
    });
    const more = lines.length > MOST_NAMED ? [element("span", {}, `and ${lines.length - MOST_NAMED} more`)] : [];
    this.legend.replaceChildren(...(lines.length > 1 ? names : []), ...more);
  }

  drawPins() {
    for (const old of this.marks.querySelectorAll(".br-pin")) old.remove();
    const [l, t, r, b] = this.player.window ?? WHOLE;
    for (const pin of this.player.pins.values()) {
      if (pin.panel !== this.index) continue;
      const fx = (pin.fx - l) / (r - l);
      const fy = (pin.fy - t) / (b - t);
      if (fx < 0 || fx > 1 || fy < 0 || fy > 1) continue;
      const mark = element("span", { class: "br-pin" });
      mark.style.left = `${fx * 100}%`;
      mark.style.top = `${fy * 100}%`;
      mark.style.setProperty("--br-pin", this.view.inks.curves[pin.hue % this.view.inks.curves.length]);
      this.marks.append(mark);
    }
  }

  // --- pointer ---

  /** The point of the picture under the pointer: inside the box (bx, by), of the whole (fx, fy). */
  at(event) {
    const { left, top, width, height } = this.box.getBoundingClientRect();
    const [l, t, r, b] = this.player.window ?? WHOLE;
    const bx = Math.min(1, Math.max(0, (event.clientX - left) / width));
    const by = Math.min(1, Math.max(0, (event.clientY - top) / height));
    const most = 1 - 1e-9;
    return { bx, by, fx: Math.min(most, l + bx * (r - l)), fy: Math.min(most, t + by * (b - t)) };
  }

  listen() {
    const { box } = this;
    box.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      box.setPointerCapture(event.pointerId);
      this.drag = { ...this.at(event), pan: event.shiftKey && this.player.window !== null, moved: false };
      this.drag.window = this.player.window;
    });
    box.addEventListener("pointermove", (event) => {
      const point = this.at(event);
      if (this.drag) this.dragTo(point);
      else this.view.hover(this.index, point);
    });
    box.addEventListener("pointerup", (event) => {
      const { drag } = this;
      this.drag = null;
      show(this.band, false);
      if (!drag) return;
      const point = this.at(event);
      if (!drag.moved) {
        if (this.player.can("series")) this.player.pin(this.index, point.fx, point.fy);
      } else if (!drag.pan) {
        const window = [
          Math.min(drag.fx, point.fx), Math.min(drag.fy, point.fy),
          Math.max(drag.fx, point.fx), Math.max(drag.fy, point.fy),
        ];
        if (window[2] - window[0] > 1e-4 && window[3] - window[1] > 1e-4) this.player.zoom(inside(window));
      }
    });
    box.addEventListener("pointercancel", () => this.cancel());
    box.addEventListener("pointerleave", () => {
      if (!this.drag) this.view.hover(null);
    });
    box.addEventListener("dblclick", (event) => event.preventDefault());
    box.addEventListener(
      "wheel",
      (event) => {
        // the page scrolls as ever, unless the picture was clicked or Ctrl is held
        if (!event.ctrlKey && !event.metaKey && !this.view.focused) return;
        event.preventDefault();
        const { bx, by } = this.at(event);
        const turned = event.deltaMode === 1 ? event.deltaY * 30 : event.deltaY;
        this.player.zoom(zoomed(this.player.window, bx, by, Math.exp(turned / 400)));
      },
      { passive: false },
    );
  }

  cancel() {
    const dragging = this.drag !== null && this.drag !== undefined;
    this.drag = null;
    show(this.band, false);
    return dragging;
  }

  dragTo(point) {
    const { drag } = this;
    const { width, height } = this.size;
    const across = Math.abs(point.bx - drag.bx) * width;
    const down = Math.abs(point.by - drag.by) * height;
    if (!drag.moved && across < 4 && down < 4) return;
    drag.moved = true;
    if (drag.pan) {
      const [l, t, r, b] = drag.window;
      const x = (drag.bx - point.bx) * (r - l);
      const y = (drag.by - point.by) * (b - t);
      this.player.zoom(inside([l + x, t + y, r + x, b + y]));
      return;
    }
    show(this.band, true);
    Object.assign(this.band.style, {
      left: `${Math.min(point.bx, drag.bx) * 100}%`,
      top: `${Math.min(point.by, drag.by) * 100}%`,
      width: `${across}px`,
      height: `${down}px`,
    });
  }
}

// --- DOM: one display of a model -----------------------------------------------------------------

const OWN_BAR = 54; // height of a colour bar under its panel
const THUMB = 16; // width of the slider's thumb, as in the style sheet
const MODES = { every: "every frame", realtime: "real time", timed: "as time passes" };
const GONE = "The kernel was restarted or has ended. What is here still plays; run the cell again for more.";
const HELP = [
  ["Space", "play, pause"],
  ["← →", "one step; with Shift ten"],
  ["Home End", "first; last (follows a running solve)"],
  ["+ −", "faster, slower"],
  ["L R M", "loop, reverse, every frame or real time"],
  ["[ ] X", "play from here on; up to here; all again"],
  ["C N", "colours, norm"],
  ["A F", "limits: sampled, of all frames"],
  ["S T", "save a picture, telemetry"],
  ["0", "whole picture again"],
  ["Esc", "back to the cell"],
  ["drag", "zoom; Shift and drag moves"],
  ["click", "pin a point: its time series"],
];

class View {
  constructor(player, host) {
    this.player = player;
    this.host = host;
    this.visible = false;
    this.lod = 0;
    this.ratio = globalThis.devicePixelRatio || 1;
    this.abort = new AbortController();
    this.build();
    host.classList.add("binref-player-host");
    host.append(this.root);
    this.applyTheme();
    this.observe();
    player.views.add(this);
  }

  // --- building ---

  build() {
    const { player } = this;
    const { scene } = player;
    const name = scene.name || "trajectory";
    this.root = element("div", {
      class: "binref-player",
      role: "group",
      tabindex: "0",
      "aria-label": `Player of ${name}`,
      "data-lm-suppress-shortcuts": "true",
      "data-ready": "0",
    });
    this.title = element("span", { class: "br-title" });
    this.pill = element("button", { class: "br-pill br-live", type: "button", hidden: true, onclick: () => player.end() });
    this.badge = element("span", { class: "br-pill br-busy", role: "status" });
    this.work = element("span", { class: "br-pill br-work", role: "status" });
    this.stop = this.button("stop", "Stop", () => player.post({ type: "stop" }), { text: "stop" });
    const head = element("div", { class: "br-head" }, this.title, this.badge, this.work, this.stop, this.pill);

    this.grid = element("div", { class: "br-grid" });
    this.bars = element("div", { class: "br-bars" });
    this.unzoom = this.button("unzoom", "Show the whole picture", () => player.zoom(null), { text: "whole picture" });
    this.unzoom.classList.add("br-unzoom");
    this.monitor = element("div", { class: "br-monitor", hidden: true });
    this.stage = element("div", { class: "br-stage" }, this.grid, this.bars, this.unzoom, this.monitor);
    this.buildPanels();

    this.readout = element("span", { class: "br-value" });
    this.clipped = element("span", { class: "br-clipped" });
    const line = element("div", { class: "br-readout" }, this.readout, this.clipped);

    this.cachedBar = element("canvas", { class: "br-cached", "aria-hidden": "true" });
    this.partMark = element("div", { class: "br-part", "aria-hidden": "true", hidden: true });
    this.slider = element("input", { type: "range", class: "br-range", min: "0", step: "1", "aria-label": scene.dim || "step" });
    this.slider.addEventListener("input", () => player.seek(Number(this.slider.value), { scrub: true }));
    const timeline = element("div", { class: "br-timeline" }, this.cachedBar, this.partMark, this.slider);

    this.root.append(head, this.stage, line, timeline, this.buildControls(), this.buildSliders());
    this.root.append(this.buildColours(), this.buildSeries(), this.buildHelp());
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("button, input, select, .br-chart")) this.root.focus({ preventScroll: true });
    });
  }

  button(name, label, action, { text = "", toggle = false, picture = name } = {}) {
    const made = element("button", {
      type: "button",
      class: "br-button",
      "data-name": name,
      "aria-label": label,
      title: label,
      "aria-pressed": toggle ? "false" : null,
      onclick: action,
    });
    made.append(text || icon(picture));
    return made;
  }

  select(name, label, choices, action) {
    const made = element("select", { class: "br-select", "data-name": name, "aria-label": label, title: label });
    for (const [value, text] of choices) made.append(element("option", { value }, text));
    made.addEventListener("change", () => action(made.value));
    return made;
  }

  buildPanels() {
    this.panels = this.player.scene.panels.map((_, k) => new Panel(this, k));
    this.grid.replaceChildren(...this.panels.map((panel) => panel.node));
    const colours = new Set(this.player.scene.panels.map((panel) => panel.colour));
    const line = this.player.scene.kind === "line";
    const shown = line || this.player.options.show_bar === false ? [] : [...colours];
    this.ownBars = shown.length > 1; // each panel has its own scale under it
    this.barOf = (this.ownBars ? [] : shown).map((k) => ({ colour: k, canvas: element("canvas", { class: "br-bar", role: "img" }) }));
    this.bars.replaceChildren(...this.barOf.map(({ canvas }) => canvas));
  }

  buildControls() {
    const { player } = this;
    const command = (name) => () => this.command(name);
    this.playButton = this.button("play", "Play", command("play"));
    this.playButton.classList.add("br-play");
    const transport = element(
      "div",
      { class: "br-group", role: "group", "aria-label": "Playback" },
      this.button("first", "First step", command("first")),
      this.button("back", "One step back", command("back")),
      this.playButton,
      this.button("forward", "One step forward", command("forward")),
      this.button("last", "Last step", command("last")),
    );
    this.timeLabel = element("span", { class: "br-time" });
    this.position = element("span", { class: "br-position" });
    const where = element("div", { class: "br-where" }, this.timeLabel, this.position);

    this.speed = element("output", { class: "br-speed", "aria-label": "Speed" });
    this.simulated = element("span", { class: "br-simulated", title: "Simulated time a second" });
    this.partButton = this.button("part", "Mark a part", () => player.markNext(), { toggle: true });
    this.loopButton = this.button("loop", "Loop", command("loop"));
    this.reverseButton = this.button("reverse", "Backwards", command("reverse"), { toggle: true });
    const uneven = player.scene.pace && !player.scene.pace.even;
    const modes = Object.entries(MODES).filter(([mode]) => mode !== "timed" || uneven || player.mode === mode);
    this.mode = this.select("mode", "Pace", modes, (mode) => player.setting("mode", mode));
    const strides = [1, 2, 5, 10, 20, 50, 100].map((stride) => [String(stride), stride === 1 ? "all steps" : `every ${stride}th`]);
    strides[1][1] = "every 2nd";
    this.strideSelect = this.select("stride", "Stride", strides, (stride) => player.setting("stride", Number(stride)));
    const pace = element(
      "div",
      { class: "br-group", role: "group", "aria-label": "Pace" },
      this.button("slower", "Slower", command("slower"), { text: "−" }),
      this.speed,
      this.button("faster", "Faster", command("faster"), { text: "+" }),
      this.simulated,
    );
    const ways = element(
      "div",
      { class: "br-group", role: "group", "aria-label": "Order" },
      this.loopButton,
      this.partButton,
      this.reverseButton,
      this.mode,
      this.strideSelect,
    );
    this.gauge = this.button("telemetry", "Telemetry", command("telemetry"), { toggle: true, picture: "gauge" });
    this.helpButton = this.button("help", "Keys", command("help"), { toggle: true });
    const colours = player.can("colours");
    this.palette = this.button("palette", "Colours and limits", () => this.openColours(), { toggle: true });
    const extras = element(
      "div",
      { class: "br-group br-extras", role: "group", "aria-label": "More" },
      colours ? this.palette : null,
      this.button("save", "Save a picture", command("save")),
      this.gauge,
      this.helpButton,
    );
    const rest = element("div", { class: "br-rest" }, ways, extras); // on one line, be it the first or the second
    return element("div", { class: "br-controls" }, transport, where, pace, rest);
  }

  /** Sliders of the other dimensions. */
  buildSliders() {
    const { player } = this;
    this.sliders = (player.scene.sliders ?? []).map((slider, k) => {
      const input = element("input", {
        type: "range", class: "br-range", min: "0", max: String(slider.size - 1), step: "1",
        "aria-label": slider.label || slider.dim, "data-dim": slider.dim,
      });
      const value = element("span", { class: "br-slider-value" });
      input.addEventListener("input", () => player.setPosition(k, Number(input.value)));
      const name = element("span", { class: "br-slider-name" }, slider.label || slider.dim);
      return { slider, input, value, row: element("div", { class: "br-slider" }, name, input, value) };
    });
    return element("div", { class: "br-sliders" }, ...this.sliders.map(({ row }) => row));
  }

  buildSeries() {
    this.chart = element("canvas", { class: "br-chart", role: "img" });
    this.chips = element("div", { class: "br-chips" });
    const move = (event) => {
      const { left } = this.chart.getBoundingClientRect();
      const box = this.chartBox;
      if (!box || this.player.n < 2) return;
      const share = (event.clientX - left - box.x) / box.width;
      this.player.seek(this.stepAt(Math.min(1, Math.max(0, share))), { scrub: true });
    };
    this.chart.addEventListener("pointerdown", (event) => {
      this.chart.setPointerCapture(event.pointerId);
      move(event);
    });
    this.chart.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) move(event);
    });
    this.playhead = element("div", { class: "br-playhead", "aria-hidden": "true" });
    this.plot = element("div", { class: "br-plot" }, this.chart, this.playhead);
    this.series = element("div", { class: "br-series", hidden: true }, this.plot, this.chips);
    return this.series;
  }

  /** Colours, norm and limits of one colour scale. */
  buildColours() {
    const { player } = this;
    const { scene } = player;
    this.scale = 0;
    const names = [...new Set(scene.panels.map(({ colour: k }) => k))].map((k) => [String(k), player.colours[k]?.label ?? ""]);
    this.which = this.select("which", "Colour scale", names, (k) => {
      this.scale = Number(k);
      this.paintColours();
    });
    show(this.which, names.length > 1);
    const line = scene.kind === "line";
    this.cmap = this.select("cmap", "Colormap", CMAPS.map((name) => [name, name]), (cmap) => player.post({ type: "colour", cmap }));
    const turn = () => {
      const { value } = this.cmap;
      player.post({ type: "colour", cmap: value.endsWith("_r") ? value.slice(0, -2) : `${value}_r` });
    };
    this.inverted = this.button("invert", "Invert the colours", turn, { text: "invert", toggle: true });
    this.reduce = this.select("reduce", "Cells of one pixel", Object.entries(REDUCTIONS), (how) => {
      player.tell({ reduce: how });
      player.reduceBy(how);
    });
    const several = element("label", { class: "br-several" }, "several cells a pixel: ", this.reduce);
    this.norm = this.select("norm", "Norm", NORMS.map((name) => [name, name]), (kind) => player.post({ type: "norm", kind }));
    for (const one of [this.cmap, this.inverted, this.norm, several]) show(one, !line);
    const field = (label) => {
      const input = element("input", { type: "number", step: "any", class: "br-number", "aria-label": label });
      input.addEventListener("change", () => this.giveLimits());
      return input;
    };
    this.low = field("Lower limit");
    this.high = field("Upper limit");
    const rule = (how, text) => this.button(how, `Limits of ${text}`, () => player.limits(how, { colour: this.scale }), { text });
    this.rule = element("span", { class: "br-rule" });
    this.colourPanel = element(
      "div",
      { class: "br-colours", role: "group", "aria-label": "Colours and limits", hidden: true },
      element("div", { class: "br-group" }, this.which, this.cmap, this.inverted, this.norm),
      element("div", { class: "br-group" }, this.low, element("span", {}, "to"), this.high, this.rule),
      element("div", { class: "br-group" }, "limits from:", rule("sampled", "a sample"), rule("frame", "this frame"), rule("full", "all frames")),
      several,
    );
    return this.colourPanel;
  }

  openColours() {
    show(this.colourPanel, this.colourPanel.hidden);
    attribute(this.palette, "aria-pressed", String(!this.colourPanel.hidden));
    this.paintColours();
  }

  giveLimits() {
    const [lo, hi] = [this.low, this.high].map((input) => input.valueAsNumber);
    if (Number.isFinite(lo) && Number.isFinite(hi) && lo <= hi) this.player.limits("given", { lo, hi, colour: this.scale });
  }

  paintColours() {
    if (this.colourPanel.hidden) return;
    const { cmap, norm, vmin, vmax, rule } = this.player.colours[this.scale] ?? {};
    this.pick(this.cmap, cmap);
    this.pick(this.norm, norm);
    this.pick(this.reduce, this.player.reduce);
    attribute(this.inverted, "aria-pressed", String(cmap?.endsWith("_r") ?? false));
    const active = this.root.getRootNode().activeElement;
    for (const [input, value] of [[this.low, vmin], [this.high, vmax]]) {
      if (input !== active && input.valueAsNumber !== value) input.value = String(value);
    }
    say(this.rule, { sampled: "≈ from a sample", full: "from all frames", frame: "from one frame", attribute: "as the data says", given: "as given" }[rule] ?? "");
  }

  /** Show `value` in a select, adding it where it is not among the choices. */
  pick(select, value, text = value) {
    if (value === undefined || select.value === value) return;
    if (![...select.options].some((option) => option.value === value)) select.append(element("option", { value }, text));
    select.value = value;
  }

  buildHelp() {
    const rows = HELP.map(([keys, what]) => element("div", {}, element("kbd", {}, keys), element("span", {}, what)));
    this.help = element("div", { class: "br-help", role: "group", "aria-label": "Keys", hidden: true }, ...rows);
    return this.help;
  }

  // --- watching the page ---

  observe() {
    const { signal } = this.abort;
    this.resizer = new ResizeObserver(() => {
      const width = this.host.clientWidth;
      if (width > 0 && width !== this.width) this.relayout();
    });
    this.resizer.observe(this.host);
    this.watcher = new IntersectionObserver((entries) => {
      this.visible = entries.at(-1).isIntersecting;
      this.awake();
    });
    this.watcher.observe(this.root);
    this.themes = new MutationObserver(() => {
      this.applyTheme();
      clearTimeout(this.themeLater);
      this.themeLater = setTimeout(() => this.applyTheme(), 500); // style sheets may come later
    });
    const attributes = { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-theme", "theme", "style"] };
    this.themes.observe(document.body, attributes);
    this.themes.observe(document.documentElement, attributes);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.applyTheme(), { signal });
    document.addEventListener("visibilitychange", () => this.awake(), { signal });
    globalThis.addEventListener("resize", () => {
      const ratio = globalThis.devicePixelRatio || 1;
      if (ratio !== this.ratio) this.relayout();
    }, { signal });
  }

  /** Shown again, or hidden: canvases may have been emptied meanwhile. */
  awake() {
    if (!this.width) this.relayout();
    this.player.measure();
    this.player.want();
    this.player.stalePaint = true;
    this.player.refresh();
  }

  applyTheme() {
    // a host may hide everything while it changes its theme, and show it before anybody looks
    if (this.readTheme() || !this.width) this.relayout();
  }

  /** Whether colours or font have changed. An element outside the page has none to read yet. */
  readTheme() {
    flag(this.root, "theme", darkness(this.player.options.theme) ? "dark" : "light");
    if (!this.root.isConnected) return false;
    const read = inks(this.root);
    if (JSON.stringify(read) === JSON.stringify(this.inks)) return false;
    this.inks = read;
    return true;
  }

  dispose() {
    this.abort.abort();
    this.resizer.disconnect();
    this.watcher.disconnect();
    this.themes.disconnect();
    clearTimeout(this.themeLater);
    this.player.views.delete(this);
    this.root.remove();
    this.host.classList.remove("binref-player-host");
    this.player.measure();
    this.player.want();
  }

  // --- layout ---

  relayout() {
    const width = this.host.clientWidth;
    if (width === 0) {
      this.width = 0; // not laid out: to be done when there is room again
      return;
    }
    this.readTheme();
    if (!this.inks) return;
    if (this.player.scene.panels.length !== this.panels.length) this.buildPanels();
    this.width = width;
    this.ratio = globalThis.devicePixelRatio || 1;
    const narrow = width < 560;
    flag(this.root, "narrow", narrow ? "1" : "0");
    const style = getComputedStyle(this.root);
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) + 2;
    const inner = Math.max(200, Math.floor(width - padding));
    const plan = this.planStage(inner, narrow);
    this.panels.forEach((panel, k) => panel.place(plan.panels[k]));
    this.grid.style.gridTemplateColumns = `repeat(${plan.columns}, max-content)`;
    flag(this.stage, "bar", plan.vertical ? "beside" : "below");
    this.drawBars(plan);
    this.stageWidth = plan.width;
    this.root.style.maxWidth = `${Math.max(plan.width, Math.min(inner, 560)) + padding}px`;
    const [first] = plan.panels;
    this.margins = first?.margins ?? { left: 40, right: 8 };
    if (first) {
      this.monitor.style.left = `${first.margins.left + first.width - 8}px`;
      this.monitor.style.top = this.unzoom.style.top = `${first.margins.top + 8}px`;
      this.unzoom.style.left = `${first.margins.left + 8}px`;
    }
    this.barChanges = -1;
    this.drawSeries();
    this.lod = this.lodOf(plan);
    this.player.measure();
    this.player.stalePaint = true;
    this.player.refresh();
  }

  /** Sizes and places of panels and bars in `inner` pixels. */
  planStage(inner, narrow) {
    const { scene } = this.player;
    const count = Math.max(1, scene.panels.length);
    const vertical = !narrow;
    const measure = document.createElement("canvas").getContext("2d");
    measure.font = `${SMALL}px ${this.inks.font}`;
    const widest = (ticks) => Math.max(0, ...ticks.map(([, label]) => measure.measureText(label).width));
    const barWidths = this.barOf.map(({ colour: k }) => {
      const { ticks = [], label } = this.player.colours[k] ?? {};
      const words = Math.max(widest(ticks), 42); // room for "no data"
      return Math.ceil(14 + TICK + 3 + words + (label ? MEDIUM + 10 : 2));
    });
    const barsWidth = vertical ? barWidths.reduce((sum, bar) => sum + bar + 14, 0) : 0;
    const most = Math.max(1, Math.min(scene.columns || 1, count, Math.floor((inner - barsWidth) / 200)));
    const rows = Math.ceil(count / most);
    const columns = Math.ceil(count / rows);
    const [first] = scene.panels;
    const alike = (axis) => scene.panels.every((panel) => JSON.stringify(panel[axis]) === JSON.stringify(first?.[axis]));
    const [sharedX, sharedY] = [alike("x"), alike("y") && scene.kind !== "line"];
    const limit = this.player.options.height || (rows > 1 ? 300 : 480);
    const margins = scene.panels.map((panel, k) => {
      const showX = !sharedX || k + columns >= count;
      const showY = !sharedY || k % columns === 0;
      const { y, yTicks } = this.panels[k].scales(400, limit);
      const left = showY ? Math.ceil(widest(yTicks)) + TICK + 6 + (y ? MEDIUM + 8 : 0) : TICK + 6;
      const axis = showX ? TICK + 6 + SMALL + (panel.x.label ? MEDIUM + 8 : 2) : TICK + 8;
      const bottom = axis + (this.ownBars ? OWN_BAR : 0);
      return { showX, showY, left, right: 12, top: count > 1 ? 24 : 8, bottom };
    });
    // what the margins of the widest row leave
    let taken = 0;
    for (let row = 0; row < rows; row += 1) {
      const across = margins.slice(row * columns, (row + 1) * columns);
      taken = Math.max(taken, across.reduce((sum, { left, right }) => sum + left + right, 0));
    }
    const free = Math.max(80, Math.floor((inner - barsWidth - taken) / columns));
    const panels = scene.panels.map((panel, k) => {
      const { showX, showY, ...around } = margins[k];
      const own = scene.kind === "line" ? 2.2 : Math.min(3, Math.max(0.6, panel.columns / Math.max(1, panel.rows)));
      const aspect = panel.aspect || own;
      const width = Math.round(Math.min(free, limit * aspect));
      const height = Math.max(40, Math.round(width / aspect));
      const barHeight = this.ownBars ? OWN_BAR : 0;
      return { margins: around, width, height, showX, showY, barHeight, title: count > 1 ? panel.title : "" };
    });
    const across = panels.slice(0, columns);
    const panelsWidth = across.reduce((sum, { width, margins: m }) => sum + width + m.left + m.right, 0);
    return { panels, columns, rows, vertical, barWidths, width: Math.ceil(panelsWidth + barsWidth) };
  }

  drawBars({ panels, rows, vertical, barWidths, columns }) {
    if (panels.length === 0) return;
    const [{ margins, width, height }] = panels;
    this.barOf.forEach(({ colour: k, canvas }, order) => {
      const colours = this.scaleOf(k);
      const table = this.player.tables[k];
      if (!table) return;
      const bad = this.badSeen === true;
      const { inks: ink } = this;
      attribute(canvas, "aria-label", barLabel(colours));
      if (vertical) {
        const tall = this.tall({ panels, rows, columns });
        const room = barWidths[order];
        const box = { x: 1, y: margins.top, width: 14, height: tall };
        drawn(canvas, room, margins.top + tall + 26, this.ratio, (context) => {
          drawBar(context, box, { colours, table, vertical, bad, inks: ink });
        });
      } else {
        const wide = (width + margins.left + margins.right) * columns - margins.left - margins.right;
        const box = { x: margins.left, y: 6, width: Math.max(80, wide), height: 12 };
        drawn(canvas, wide + margins.left + margins.right, 58, this.ratio, (context) => {
          drawBar(context, box, { colours, table, vertical, bad, inks: ink });
        });
      }
    });
  }

  /** From the top of the first row of pictures to the bottom of the last. */
  tall({ panels, rows, columns }) {
    let sum = panels[0].height;
    for (let row = 1; row < rows; row += 1) {
      const above = panels.slice((row - 1) * columns, row * columns);
      const { margins, height } = panels[row * columns];
      sum += Math.max(...above.map((panel) => panel.margins.bottom)) + margins.top + height;
    }
    return sum;
  }

  lodOf({ panels }) {
    let least = Infinity;
    this.player.scene.panels.forEach(({ rows, columns }, k) => {
      const { width, height } = panels[k];
      const line = this.player.scene.kind === "line";
      const [l, , r] = this.player.window ?? WHOLE;
      const lod = line
        ? Math.max(1, Math.floor((columns * (r - l)) / (4 * width * this.ratio)))
        : lodOf(rows, columns, this.player.window, width, height, this.ratio);
      least = Math.min(least, lod);
    });
    return Number.isFinite(least) ? least : 1;
  }

  // --- keys ---

  get focused() {
    return this.root.getRootNode().activeElement === this.root;
  }

  key(event) {
    const name = commandOf(event);
    if (name === null) return;
    const { target } = event;
    if (target.matches("select, input[type='number']") && name !== "leave") return;
    if (target.matches("button") && event.key === " ") return; // presses the button
    if (target.matches(".br-sliders input") && !["play", "leave"].includes(name)) return;
    event.preventDefault();
    event.stopPropagation();
    this.command(name);
  }

  command(name) {
    const { player } = this;
    const run = {
      play: () => player.toggle(),
      back: () => player.step(-1),
      forward: () => player.step(1),
      back10: () => player.step(-10),
      forward10: () => player.step(10),
      first: () => player.seek(0),
      last: () => player.end(),
      faster: () => player.setting("fps", speedOf(player.fps, 1)),
      slower: () => player.setting("fps", speedOf(player.fps, -1)),
      loop: () => player.setting("loop", LOOPS[(LOOPS.indexOf(player.loop) + 1) % LOOPS.length]),
      reverse: () => player.setting("direction", -player.direction),
      mode: () => player.setting("mode", player.mode === "every" ? "realtime" : "every"),
      in: () => player.mark("in"),
      out: () => player.mark("out"),
      all: () => player.mark("all"),
      colour: () => player.can("colours") && player.nextColour(),
      norm: () => player.can("colours") && player.nextNorm(),
      auto: () => player.can("colours") && player.limits("sampled"),
      full: () => player.can("colours") && player.limits("full"),
      save: () => this.save(),
      telemetry: () => {
        player.telemetry = !player.telemetry;
        player.refresh();
      },
      unzoom: () => player.zoom(null),
      help: () => {
        show(this.help, this.help.hidden);
        attribute(this.helpButton, "aria-pressed", String(!this.help.hidden));
      },
      leave: () => this.leave(),
    }[name];
    run();
  }

  /** Close what is open; else give the focus back to the cell around. */
  leave() {
    if (this.panels.some((panel) => panel.cancel())) return;
    if (!this.help.hidden) {
      this.command("help");
      return;
    }
    if (!this.colourPanel.hidden) {
      this.openColours();
      this.root.focus({ preventScroll: true });
      return;
    }
    const active = this.root.getRootNode().activeElement;
    active?.blur();
    for (let node = this.host.parentElement; node; node = node.parentElement) {
      if (node.matches(".jp-Notebook, .jp-Cell[tabindex], [tabindex='0']")) {
        node.focus({ preventScroll: true });
        return;
      }
    }
  }

  // --- values under the pointer ---

  hover(panel, point) {
    if (panel === null) {
      this.pointer = null;
      say(this.readout, "");
      return;
    }
    this.pointer = { panel, ...point };
    this.answerHover();
  }

  answerHover() {
    const { pointer, player } = this;
    if (!pointer) return;
    const frame = player.shown;
    if (!frame) return;
    const { panel, fx, fy } = pointer;
    const scene = player.scene.panels[panel];
    const plain = !scene.x.ticks && !scene.y.ticks && player.scene.kind !== "line";
    const value = plain ? player.localValue(panel, fx, fy) : undefined;
    const unit = unitOf(player.colours[scene.colour]?.label);
    if (value !== undefined) {
      say(this.readout, `${this.place(scene, fx, fy)}   ${withUnit(format(value), unit)}`);
      pointer.asked = `${frame.i}`;
      return;
    }
    const key = `${frame.i}/${fx}/${fy}/${panel}/${player.ver}`;
    if (pointer.asked === key) return;
    const answered = (answer) => {
      if (this.pointer?.panel !== panel) return;
      const number = answer.value === null ? "no data" : withUnit(format(answer.value), unit);
      say(this.readout, `${answer.text ?? ""}   ${answer.about ? "≈ " : ""}${number}`);
      if (this.pointer.fx !== fx || this.pointer.fy !== fy) this.answerHover();
    };
    if (player.ask(panel, fx, fy, frame.i, answered)) pointer.asked = key;
  }

  /** Where a point lies, at the middle of its cell. */
  place({ x, y, rows, columns }, fx, fy) {
    const column = Math.floor(fx * columns);
    const row = Math.floor(fy * rows);
    const xValue = x.lo + ((column + 0.5) / columns) * (x.hi - x.lo);
    const yValue = y.hi - ((row + 0.5) / rows) * (y.hi - y.lo);
    const one = (axis, value) => `${axis.name} = ${withUnit(format(value, 5), unitOf(axis.label))}`;
    return `${one(x, xValue)}, ${one(y, yValue)}`;
  }

  // --- painting ---

  paint(frame, { stale, all }) {
    const { player } = this;
    if (!this.width) this.relayout();
    if (!this.width) return;
    if (player.colours !== this.seenColours || player.tables !== this.seenTables) {
      this.seenColours = player.colours;
      this.seenTables = player.tables;
      this.relayout();
      stale = true;
    }
    if (frame) {
      if (stale || frame !== this.frame) {
        for (const panel of this.panels) panel.paint(frame);
        this.frame = frame;
        this.describe(frame);
        if (this.pointer) this.answerHover();
      }
      const exact = frame.i === player.index && frame.ver === player.ver && player.exact(frame.i);
      flag(this.root, "shownIndex", String(frame.i));
      flag(this.root, "exact", exact ? "1" : "0");
      if (exact) flag(this.root, "ready", "1");
      flag(this.root, "dim", frame.i === player.index || player.playing ? "0" : "1");
    }
    this.paintPosition(frame);
    if (all) this.paintControls();
    this.paintCached();
    this.paintPlayhead();
  }

  /** What the picture says in words, and how much of it lies outside the limits. */
  describe(frame) {
    const { player } = this;
    let cells = 0;
    let outside = 0;
    let bad = 0;
    this.seeBeyond(frame);
    frame.stats?.forEach((stats, k) => {
      const [rows, columns] = frame.shapes[k];
      cells += rows * columns;
      outside += (stats.under ?? 0) + (stats.over ?? 0);
      bad += stats.bad ?? 0;
    });
    if (bad > 0 && !this.badSeen) {
      this.badSeen = true;
      this.relayout();
    }
    const words = [];
    const [only] = frame.stats ?? [];
    if (frame.stats?.length === 1 && only.lo !== null) {
      words.push(`${frame.lod > 1 ? "≈ " : ""}${format(only.lo, 4)} to ${format(only.hi, 4)}`);
    }
    if (outside > 0) words.push(`${percent(outside / cells)} outside the limits`);
    if (bad > 0) words.push(`${percent(bad / cells)} no data`);
    say(this.clipped, words.join(" · "));
    if (player.playing && now() - (this.described ?? 0) < 1000) return;
    this.described = now();
    this.panels.forEach((panel, k) => {
      const { title, x, y } = panel.scene;
      const stats = frame.stats?.[k];
      const range = stats && stats.lo !== null ? `, values from ${format(stats.lo)} to ${format(stats.hi)}` : "";
      const axes = player.scene.kind === "line" ? `over ${x.label}` : `over ${x.label} and ${y.label}`;
      const name = [player.scene.name, title].filter(Boolean).join(", ");
      attribute(panel.picture, "aria-label", `${name} ${axes} at ${frame.label ?? `step ${frame.i + 1}`}${range}`);
    });
  }

  /** Give the bar an arrow for what lies beyond the limits, once a frame has any. */
  seeBeyond(frame) {
    const { beyond, scene } = this.player;
    let more = false;
    frame.stats?.forEach(({ under, over }, k) => {
      const seen = (beyond[scene.panels[k]?.colour ?? 0] ??= { min: false, max: false });
      more ||= (under > 0 && !seen.min) || (over > 0 && !seen.max);
      seen.min ||= under > 0;
      seen.max ||= over > 0;
    });
    if (more) this.relayout();
  }

  /** A colour scale as its bar is drawn: with arrows too for what has been seen beyond. */
  scaleOf(k) {
    const { player } = this;
    const colours = player.colours[k] ?? {};
    const seen = player.beyond[k];
    if (!seen || colours.extend_given) return colours;
    const [min, max] = ["min", "max"].map((end) => seen[end] || colours.extend === end || colours.extend === "both");
    return { ...colours, extend: min ? (max ? "both" : "min") : max ? "max" : "neither" };
  }

  /** What changes with every frame. */
  paintPosition(frame) {
    const { player } = this;
    const { index, n } = player;
    flag(this.root, "index", String(index));
    flag(this.root, "playing", player.playing ? "1" : "0");
    const time = now();
    // words and slider make the host lay out its page again: as often as can be read
    if (player.playing && time - (this.worded ?? 0) < WORDS_MS) return;
    this.worded = time;
    const label = player.labels.get(index);
    say(this.timeLabel, label ?? frame?.label ?? "");
    const part = player.part.length === 2 ? ` (${player.part[0] + 1} to ${player.part[1] + 1})` : "";
    say(this.position, n > 0 ? `${index + 1} / ${n}${part}` : "no steps yet");
    const most = String(Math.max(0, n - 1));
    if (this.slider.max !== most) this.slider.max = most;
    const at = String(index);
    if (this.slider.value !== at) this.slider.value = at;
    if (!player.playing || time - (this.spokenAt ?? 0) > 500) {
      this.spokenAt = time;
      attribute(this.slider, "aria-valuetext", spoken(index, n, label ?? ""));
    }
    const note = player.failed.get(index) ?? player.error ?? "";
    for (const panel of this.panels) {
      say(panel.note, note);
      show(panel.note, note !== "");
    }
  }

  /** What changes when somebody does something. */
  paintControls() {
    const { player } = this;
    const { scene } = player;
    say(this.title, [scene.name, scene.title].filter(Boolean).join("   "));
    setIcon(this.playButton.firstChild, player.playing ? "pause" : "play");
    this.name(this.playButton, player.playing ? "Pause" : "Play");
    const slow = player.playing ? player.painted.perSecond(now()) : 0;
    const achieved = slow > 0 && slow < 0.85 * Math.min(player.fps, 60) / (player.mode === "every" ? 1 : player.skip);
    say(this.speed, `${format(player.fps, 4)} fps`);
    this.name(this.speed, achieved ? `Speed; ${Math.round(slow)} frames a second are reached` : "Speed");
    flag(this.speed, "slow", achieved ? `${Math.round(slow)} reached` : "");
    setIcon(this.loopButton.firstChild, player.loop);
    this.name(this.loopButton, { loop: "Loop", bounce: "Back and forth", once: "Once" }[player.loop] + " (L)");
    attribute(this.reverseButton, "aria-pressed", String(player.direction < 0));
    attribute(this.gauge, "aria-pressed", String(player.telemetry));
    this.pick(this.mode, player.mode, MODES[player.mode]);
    this.paintPart();
    const { pace } = player.scene;
    say(this.simulated, pace ? simulated(player.fps * player.stride * pace.step, pace.unit) : "");
    this.pick(this.strideSelect, String(player.stride), `every ${player.stride}th`);
    this.paintColours();
    this.sliders.forEach(({ slider, input, value }, k) => {
      const position = player.positions[k] ?? 0;
      if (input.value !== String(position)) input.value = String(position);
      const text = slider.values?.[position] ?? String(position);
      say(value, text);
      attribute(input, "aria-valuetext", `${slider.label || slider.dim}: ${text}`);
    });
    this.paintPills();
    show(this.unzoom, player.window !== null);
    if (player.telemetry) this.paintMonitor();
    show(this.monitor, player.telemetry);
    this.paintPins();
  }

  /** The part that is played: its place on the timeline, and what the button for it does next. */
  paintPart() {
    const { player } = this;
    const { part, n } = player;
    show(this.partMark, part.length === 2);
    attribute(this.partButton, "aria-pressed", String(part.length === 2));
    if (part.length !== 2) {
      this.name(this.partButton, "Play only a part: from here on ([)");
      return;
    }
    const [first, last] = part;
    const open = last === n - 1 && player.index > first;
    this.name(this.partButton, open ? "Play only up to here (])" : "Play all steps again (X)");
    const share = (i) => Math.min(1, Math.max(0, i / Math.max(1, n - 1)));
    this.partMark.style.left = `calc(${THUMB / 2}px + (100% - ${THUMB}px) * ${share(first)})`;
    this.partMark.style.right = `calc(${THUMB / 2}px + (100% - ${THUMB}px) * ${1 - share(last)})`;
  }

  name(node, label) {
    attribute(node, "aria-label", label);
    attribute(node, "title", label);
  }

  paintPills() {
    const { player } = this;
    const { live, status } = player;
    const missing = player.gone ? "kernel gone" : "kernel busy";
    say(this.badge, player.busy ? missing : player.fallback ? "text transport" : "");
    show(this.badge, this.badge.textContent !== "");
    attribute(this.badge, "title", player.gone ? GONE : "");
    flag(this.root, "busy", player.busy ? "1" : "0");
    flag(this.root, "kernel", player.gone ? "gone" : player.busy ? "busy" : "there");
    const share = typeof status.fraction === "number" ? ` ${Math.floor(status.fraction * 100)} %` : "";
    say(this.work, status.text ? `${status.text}${share}` : "");
    show(this.work, Boolean(status.text));
    show(this.stop, Boolean(status.text));
    const writing = live.state === "writing";
    show(this.pill, Boolean(live.state));
    if (!live.state) return;
    const total = live.total ? ` of ${live.total}` : "";
    const rate = writing && live.rate ? ` · ${format(live.rate, 2)}/s` : "";
    say(this.pill, writing ? `LIVE  ${player.n}${total}${rate}` : live.state);
    flag(this.pill, "state", writing ? (player.attached ? "attached" : "detached") : live.state);
    attribute(this.pill, "title", writing && !player.attached ? "Follow the run again (End)" : `The run is ${live.state}`);
  }

  paintCached() {
    const { player } = this;
    const time = now();
    const key = `${player.cache.changes}/${player.n}/${player.lod}/${player.ver}`;
    const pause = this.barChanges === -1 ? 0 : player.playing ? 500 : 100;
    if (this.barChanges === key || time - (this.barTime ?? 0) < pause) return;
    this.barChanges = key;
    this.barTime = time;
    const width = this.slider.clientWidth;
    if (width <= THUMB) return;
    const context = prepare(this.cachedBar, width, 6, this.ratio);
    const inner = width - THUMB;
    context.fillStyle = this.inks.track;
    context.beginPath();
    context.roundRect(THUMB / 2 - 3, 0, inner + 6, 6, 3);
    context.fill();
    context.clip();
    context.fillStyle = this.inks.cached;
    const n = player.n;
    if (n === 0) return;
    const share = coverage(player.cache.indices(player.playView.id), n, Math.ceil(inner));
    for (let cell = 0; cell < share.length; cell += 1) {
      if (share[cell] === 0) continue;
      context.globalAlpha = 0.35 + 0.65 * Math.min(1, share[cell]);
      const edge = cell === 0 ? 3 : 0;
      context.fillRect(THUMB / 2 + cell - edge, 0, 1 + edge + (cell === share.length - 1 ? 3 : 0), 6);
    }
    context.globalAlpha = 1;
  }

  paintMonitor() {
    const { player } = this;
    const stats = player.stats();
    const { read, enc } = player.counts;
    const hits = stats.hits === null ? "–" : `${Math.round(stats.hits * 100)} %`;
    const megabytes = (player.cache.bytes / 1e6).toFixed(1);
    say(
      this.monitor,
      [
        `shown    ${player.playing ? `${stats.fps.toFixed(1)} /s` : "–"}`,
        `gap 95 % ${player.playing ? `${stats.gap_p95_ms.toFixed(0)} ms` : "–"}`,
        `dropped  ${stats.dropped}`,
        `cache    ${hits} of ${megabytes} MB`,
        `trip     ${stats.rtt_ms.toFixed(0)} ms`,
        `flying   ${stats.in_flight}`,
        `read     ${Number(read).toFixed(1)} ms`,
        `encode   ${Number(enc).toFixed(1)} ms`,
        `paint    ${stats.paint_ms.toFixed(1)} ms`,
        `detail   1:${player.lod}${player.lod > 1 ? ` ${player.reduce}` : ""}`,
      ].join("\n"),
    );
  }

  // --- pinned points ---

  paintPins() {
    const { player } = this;
    const key = [...player.pins.values()].map((pin) => `${pin.id}/${pin.text}/${pin.done}`).join();
    if (key === this.pinned) return;
    const before = this.series.hidden;
    this.pinned = key;
    show(this.series, player.pins.size > 0);
    this.chips.replaceChildren(
      ...[...player.pins.values()].map((pin) => {
        const dot = element("span", { class: "br-dot" });
        dot.style.background = this.inks.curves[pin.hue % this.inks.curves.length];
        const text = pin.text || "reading …";
        const progress = pin.done > 0 && pin.done < 1 ? ` ${Math.floor(pin.done * 100)} %` : "";
        const remove = this.button("unpin", `Remove the pin at ${text}`, () => player.unpin(pin.id), { text: "×" });
        return element("span", { class: "br-chip" }, dot, `${text}${progress}`, remove);
      }),
    );
    for (const panel of this.panels) if (panel.size) panel.drawPins();
    if (before !== this.series.hidden || !this.series.hidden) this.drawSeries();
  }

  /** The x of the chart: the times that came with the series, else the step numbers. */
  seriesRange() {
    for (const pin of this.player.pins.values()) {
      const { times } = pin;
      if (times?.length > 1 && times[0] !== times.at(-1)) return { times: pin, lo: times[0], hi: times.at(-1) };
    }
    return { times: null, lo: 0, hi: Math.max(1, this.player.n - 1) };
  }

  /** The step at a share of the chart's width. */
  stepAt(share) {
    const { times: pin, lo, hi } = this.seriesRange();
    const x = lo + share * (hi - lo);
    if (!pin) return Math.round(x);
    let best = 0;
    pin.times.forEach((time, k) => {
      if (Math.abs(time - x) < Math.abs(pin.times[best] - x)) best = k;
    });
    return pin.steps[best];
  }

  /** The share of the chart's width at a step. */
  shareAt(step) {
    const { times: pin, lo, hi } = this.seriesRange();
    if (!pin) return (step - lo) / (hi - lo);
    const { steps, times } = pin;
    let after = 0;
    while (after < steps.length - 1 && steps[after] < step) after += 1;
    const before = Math.max(0, after - 1);
    const part = steps[after] === steps[before] ? 0 : (step - steps[before]) / (steps[after] - steps[before]);
    return (times[before] + part * (times[after] - times[before]) - lo) / (hi - lo);
  }

  drawSeries() {
    const { player } = this;
    if (player.pins.size === 0 || !this.stageWidth) return;
    const width = Math.min(this.stageWidth, this.width);
    const height = 150;
    const left = Math.max(this.chartMargin ?? 0, this.margins.left);
    const box = { x: left, y: 8, width: Math.max(60, width - left - 14), height: height - 8 - 38 };
    this.chartBox = box;
    const context = prepare(this.chart, width, height, this.ratio);
    const pins = [...player.pins.values()];
    let low = Infinity;
    let high = -Infinity;
    for (const { values } of pins) {
      for (const value of values) {
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) [low, high] = [0, 1];
    const margin = (high - low || Math.abs(high) || 1) * 0.06;
    const { times, lo, hi } = this.seriesRange();
    const label = pins.find((pin) => pin.unit)?.unit ?? "";
    const yTicks = ticksOf(low - margin, high + margin, 4);
    context.font = `${SMALL}px ${this.inks.font}`;
    const words = Math.max(0, ...yTicks.map(([, text]) => context.measureText(text).width));
    const needed = Math.ceil(words) + TICK + 6 + (label ? MEDIUM + 8 : 0);
    if (needed > left) {
      this.chartMargin = needed + 8;
      this.drawSeries();
      return;
    }
    drawAxes(context, box, {
      x: times?.xlabel ?? player.scene.dim,
      y: label,
      showX: true,
      showY: true,
      xTicks: ticksOf(lo, hi, box.width / 90),
      yTicks,
      inks: this.inks,
    });
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.width, box.height);
    context.clip();
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    for (const pin of pins) {
      context.strokeStyle = this.inks.curves[pin.hue % this.inks.curves.length];
      const { steps, values } = pin;
      const at = times && pin.times ? pin.times : steps;
      const xs = (k) => box.x + ((at[k] - lo) / (hi - lo)) * box.width;
      const ys = (k) => box.y + (1 - (values[k] - low + margin) / (high - low + 2 * margin)) * box.height;
      drawCurve(context, values.length, xs, ys, Math.round(box.width * this.ratio));
    }
    context.restore();
    const where = pins.map((pin) => pin.text).filter(Boolean).join("; ");
    attribute(this.chart, "aria-label", `Time series of ${pins.length} pinned points: ${where}`);
    this.paintPlayhead();
  }

  paintPlayhead() {
    if (this.series.hidden || !this.chartBox) return;
    const { x, y, width, height } = this.chartBox;
    const share = Math.min(1, Math.max(0, this.shareAt(this.player.index)));
    this.playhead.style.transform = `translateX(${(x + share * width).toFixed(1)}px)`;
    this.playhead.style.top = `${y}px`;
    this.playhead.style.height = `${height}px`;
  }

  // --- saving ---

  /** What is on the stage, with title and time, as one canvas at twice the resolution. */
  snapshot() {
    const scale = 2;
    const pad = 16;
    const stage = this.stage.getBoundingClientRect();
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil((stage.width + 2 * pad) * scale);
    canvas.height = Math.ceil((stage.height + 2 * pad + 28) * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = this.inks.ground;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = this.inks.text;
    context.font = `600 14px ${this.inks.font}`;
    context.fillText([this.title.textContent, this.player.shown?.label].filter(Boolean).join("   "), pad, pad + 12);
    context.translate(pad - stage.left, pad + 28 - stage.top);
    for (const { box, picture, axes, bar, line } of this.panels) {
      const frame = box.getBoundingClientRect();
      context.save();
      context.beginPath();
      context.rect(frame.left, frame.top, frame.width, frame.height);
      context.clip();
      context.imageSmoothingEnabled = line || picture.dataset.shrunk === "1";
      this.put(context, picture);
      context.restore();
      context.imageSmoothingEnabled = true;
      this.put(context, axes);
      if (!bar.hidden) this.put(context, bar);
    }
    for (const { canvas: bar } of this.barOf) this.put(context, bar);
    return canvas;
  }

  put(context, canvas) {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    if (width > 0 && height > 0) context.drawImage(canvas, left, top, width, height);
  }

  save() {
    const { scene, index } = this.player;
    this.snapshot().toBlob((blob) => {
      const address = URL.createObjectURL(blob);
      element("a", { href: address, download: `${scene.name || "frame"}-${index}.png` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    }, "image/png");
  }
}

function barLabel({ label = "", vmin, vmax }) {
  return `Colour bar: ${label} from ${format(vmin)} to ${format(vmax)}`;
}

function withUnit(text, unit) {
  return unit && text !== "no data" ? `${text} ${unit}` : text;
}

/** Called once a model; the state lives as long as the model does. */
const widget = () => {
  let player;
  return {
    initialize({ model }) {
      player = new Player(model);
      return () => player.dispose();
    },
    render({ el }) {
      const view = new View(player, el);
      return () => view.dispose();
    },
  };
};

export default widget;
