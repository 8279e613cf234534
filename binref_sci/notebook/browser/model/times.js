// Times of all frames, once they are of use.

import { numbersOf } from "../pure/bytes.js";

export class Times {
  #channel;

  values = null;

  constructor(channel) {
    this.#channel = channel;
  }

  /** Ask for those of `n` frames that are not here. */
  need(n) {
    const from = this.values?.length ?? 0;
    if (from < n) this.#channel.post({ type: "times", from });
  }

  /** Whether they follow those that are here. */
  receive({ from }, [bytes]) {
    const more = numbersOf(Float64Array, bytes);
    const old = this.values ?? new Float64Array(0);
    if (from > old.length) return false;
    this.values = new Float64Array(from + more.length);
    this.values.set(old.subarray(0, from));
    this.values.set(more, from);
    return true;
  }
}
