// Pinned points and their time series.

import { numbersOf } from "../pure/bytes.js";

export class Pins {
  #channel;
  #changed;
  #pins = new Map();

  /** `changed` is called after what is done here. */
  constructor(channel, changed) {
    this.#channel = channel;
    this.#changed = changed;
  }

  get size() {
    return this.#pins.size;
  }

  [Symbol.iterator]() {
    return this.#pins.values();
  }

  /** Have those that Python has. */
  sync(pins) {
    const ids = new Set(pins.map((pin) => pin.id));
    for (const id of this.#pins.keys()) if (!ids.has(id)) this.#pins.delete(id);
    for (const pin of pins) if (!this.#pins.has(pin.id)) this.#add(pin);
  }

  #add(pin) {
    const used = new Set([...this].map((other) => other.hue));
    let hue = 0;
    while (used.has(hue)) hue += 1;
    this.#pins.set(pin.id, { ...pin, hue, text: "", unit: "", done: 0, steps: [], values: [] });
  }

  pin(panel, fx, fy) {
    const numbers = [...this.#pins.keys()].filter(Number.isInteger);
    const id = Math.max(0, ...numbers) + 1;
    this.#add({ id, panel, fx, fy });
    this.#channel.post({ type: "pin", id, panel, fx, fy });
    this.#changed();
  }

  unpin(id) {
    this.#pins.delete(id);
    this.#channel.post({ type: "unpin", id });
    this.#changed();
  }

  /** Part of a series has come; whether it is of a pin that is still here. */
  receive({ id, text, unit, done, xlabel }, buffers) {
    const pin = this.#pins.get(id);
    if (!pin) return false;
    const [steps, values, times = null] = buffers.map((bytes) => numbersOf(Float64Array, bytes));
    Object.assign(pin, { text, unit, done, steps, values, times, xlabel });
    return true;
  }
}
