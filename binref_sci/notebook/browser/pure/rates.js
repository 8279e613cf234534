// How fast frames come, and how many may be under way.

const MOST_IN_FLIGHT = 16;
const IN_FLIGHT_BYTES = 8e6;
const RESTING_BYTES = 1.1e6;

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

/** In real time: every how many-th frame is shown, so that those that are come in time. */
export class Skipping {
  #every = 1;
  #late = false; // one that is shown was not there
  #adapted = 0;

  get every() {
    return this.#every;
  }

  /** Whether frame `i` is one of those shown, evenly. */
  shows(i, stride) {
    return Math.round(i / stride) % this.#every === 0;
  }

  late() {
    this.#late = true;
  }

  /** Twice a second: skip more where frames came too late, less where all of them are there. */
  adapt(now, { comfortable, fps, rate }) {
    if (now - this.#adapted < 500) return;
    this.#adapted = now;
    if (this.#late) this.#every = Math.min(60, Math.max(this.#every + 1, skipOf(fps, rate)));
    else if (comfortable) this.#every = Math.max(1, this.#every - 1);
    this.#late = false;
  }
}
