// How long the playhead has been at rest.

import { now } from "../pure/clock.js";

const REST_MS = 120; // a scrub at rest for this long asks for the exact frame
const VALUES_MS = 250; // at rest for this long: exact values of the frame are asked for
const FILL_MS = 1000; // at rest for this long: the cache is filled, which a scrub would wait for

/** Exact values are for a frame that is looked at, not for one that is passed. */
export class Rest {
  #moved = -Infinity;
  #scrubbed = -Infinity;
  #settled;
  #still;
  #callbacks;

  /** `settled` is called when more may be asked for, `still` when a scrub has come to rest. */
  constructor(callbacks) {
    this.#callbacks = callbacks;
  }

  move() {
    const { settled } = this.#callbacks;
    this.#moved = now();
    clearTimeout(this.#settled);
    this.#settled = setTimeout(() => {
      settled();
      this.#settled = setTimeout(settled, FILL_MS - VALUES_MS);
    }, VALUES_MS + 5);
  }

  /** It has moved, and more moves follow. */
  scrub() {
    this.#scrubbed = now();
    clearTimeout(this.#still);
    this.#still = setTimeout(() => {
      this.endScrub();
      this.#callbacks.still();
    }, REST_MS);
  }

  endScrub() {
    this.#scrubbed = -Infinity;
  }

  get scrubbing() {
    return now() - this.#scrubbed < REST_MS;
  }

  /** Long enough for exact values. */
  get looking() {
    return now() - this.#moved >= VALUES_MS;
  }

  /** Long enough to fill the cache. */
  get filling() {
    return now() - this.#moved >= FILL_MS;
  }

  dispose() {
    clearTimeout(this.#settled);
    clearTimeout(this.#still);
  }
}
