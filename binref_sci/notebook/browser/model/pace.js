// When the next steps are due.

import { Clock } from "../pure/clock.js";
import { following } from "../pure/order.js";
import { timedSteps } from "../pure/times.js";

/** The clock of a playhead, and what is left out where it cannot be kept. */
export class Pace {
  #playhead;
  #skipping;
  #clock = new Clock();

  waits = false; // for a frame, where every frame is shown

  constructor(playhead, skipping) {
    this.#playhead = playhead;
    this.#skipping = skipping;
  }

  reset() {
    this.#clock.reset();
  }

  /**
   * Let time pass until `time`: {index, direction, ended, taken}, where the steps that are due
   * lead, and how many were taken. Where every frame is shown it waits for one that is not
   * `allReady(i)`, else it goes on whether one is `ready(i)` or not. `times` of all frames, whose
   * mean step is `step`, are for playing in step with them.
   */
  advance(time, { times, step, ready, allReady }) {
    const { every, fps, index, direction, order, stride } = this.#playhead;
    const at = { index, direction, ended: false, taken: 0 };
    this.#clock.tick(time, fps);
    let { due } = this.#clock;
    let cost = null; // of the steps that are due, where they are not alike
    if (this.#playhead.mode === "timed") [due, cost] = timedSteps(at, order, { times, step, fps, owed: this.#clock.owed });
    if (due < 1) return at;
    if (every) due = 1;
    while (at.taken < due && !at.ended) {
      const next = following(at.index, at.direction, order);
      if (every && !next.ended && !allReady(next.index)) {
        this.waits = true;
        break;
      }
      Object.assign(at, next);
      at.taken += 1;
      if (!every && this.#skipping.shows(at.index, stride) && !ready(at.index)) this.#skipping.late();
    }
    this.#clock.take(cost ?? (every ? at.taken : due));
    return at;
  }
}
