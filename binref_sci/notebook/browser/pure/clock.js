// Time that passes.

export const now = () => performance.now();

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
