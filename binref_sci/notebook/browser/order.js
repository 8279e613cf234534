import { format } from "./words.js";

// The trajectory player: parts that are joined to one module, without a build step.
//
// Three parts, from the bottom up: pure parts (exported by name, tested under Node), `Player`
// (the state of one widget model: clock, cache, what to ask for) and `View` (the DOM of one
// display of it). The state belongs to the model, so two displays show one film.
//
// The kernel sends nothing that was not asked for. A `want` message lists the frames that are
// still missing, most wanted first, and replaces the one before it; nothing ever queues.

// --- Pure parts: order of play -------------------------------------------------------------------

export const REST_MS = 120; // a scrub at rest for this long asks for the exact frame
export const VALUES_MS = 250; // at rest for this long: exact values of the frame are asked for
export const FILL_MS = 1000; // at rest for this long: the cache is filled, which a scrub would wait for
export const ERROR_MS = 8000; // an error that is not about a frame is shown for so long
export const BUSY_MS = 500; // no answer for this long: the kernel is busy
export const GONE_MS = 4000; // no answer for this long of a kernel that has nothing to do: it does not know us
export const DOUBT_MS = 1500; // after the host has lost or found a kernel
export const LONGEST_STEP_S = 5; // in step with time: a gap between two frames is not waited for longer
export const ASK_AGAIN_MS = 2000; // a want that was lost (the kernel was restarted) is sent again
export const REPORT_MS = 250; // after a move the position is told to Python
export const PLAY_REPORT_MS = 500; // how often it is told while playing
export const STATS_MS = 1000;
export const WORDS_MS = 50; // how often time and slider are renewed while playing
export const COARSE_CELLS = 128 * 128;
export const MOST_IN_FLIGHT = 16;
export const IN_FLIGHT_BYTES = 8e6;
export const RESTING_BYTES = 1.1e6;
export const FRAME_OVERHEAD = 256; // bytes of bookkeeping a cached frame: bounds the count of tiny ones
export const LIST_LENGTH = 48;
export const AHEAD_PLAYING = 600;
export const AHEAD_PAUSED = 4096;

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

