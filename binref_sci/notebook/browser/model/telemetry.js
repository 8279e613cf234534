// How well it plays.

import { now } from "../pure/clock.js";
import { Rate } from "../pure/rates.js";

const STATS_MS = 1000;

/** What is counted and measured of playing. */
export class Telemetry {
  #dropped = 0;
  #hits = 0;
  #misses = 0;
  #paint = 0;
  #told = 0;

  painted = new Rate();
  kernel = { read: 0, enc: 0 }; // milliseconds, of the frame that came last
  shown = false;

  /** A frame that is wanted is there, or is not. */
  count(hit) {
    if (hit) this.#hits += 1;
    else this.#misses += 1;
  }

  drop(frames) {
    this.#dropped += frames;
  }

  /** A frame has come from the kernel. */
  came({ ms }) {
    this.kernel.read = ms?.read ?? this.kernel.read;
    this.kernel.enc = ms?.enc ?? this.kernel.enc;
  }

  /** A frame was painted, which was begun at `started`. */
  paint(started) {
    const time = now();
    this.painted.add(time);
    this.#paint += 0.1 * (time - started - this.#paint);
  }

  /** Whether it is time to tell Python. */
  get due() {
    const time = now();
    if (time - this.#told <= STATS_MS) return false;
    this.#told = time;
    return true;
  }

  stats({ trip, inFlight }) {
    const seen = this.#hits + this.#misses;
    return {
      fps: round(this.painted.perSecond(now()), 1),
      dropped: this.#dropped,
      hits: seen ? round(this.#hits / seen, 3) : null,
      rtt_ms: round(trip.ms, 1),
      in_flight: inFlight,
      paint_ms: round(this.#paint, 2),
      gap_p95_ms: round(this.painted.gap95(), 1),
    };
  }
}

function round(value, digits) {
  return Number(value.toFixed(digits));
}
