// Values that only the kernel knows.

import { now } from "../pure/clock.js";

const PATIENCE_MS = 2000; // after that another question may be asked

/** One question at a time is enough for a pointer. */
export class Questions {
  #channel;
  #last = 0;
  #at = 0;
  #answered = null; // what to do with the answer

  constructor(channel) {
    this.#channel = channel;
  }

  /** Ask for the exact value at a point of frame `i`; whether it was asked. */
  ask(panel, fx, fy, i, answered) {
    if (this.#answered && now() - this.#at < PATIENCE_MS) return false;
    this.#answered = answered;
    this.#last += 1;
    this.#at = now();
    this.#channel.post({ type: "value", id: this.#last, i, panel, fx, fy });
    return true;
  }

  receive(answer) {
    if (answer.id !== this.#last) return;
    const answered = this.#answered;
    this.#answered = null;
    answered?.(answer);
  }
}
