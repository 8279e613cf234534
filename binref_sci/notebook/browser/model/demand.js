// What the kernel was asked for last.

import { now } from "../pure/clock.js";
import { LIST_LENGTH } from "../pure/plan.js";
import { Rate, RoundTrip } from "../pure/rates.js";

const ASK_AGAIN_MS = 2000; // a want that was lost (the kernel was restarted) is sent again

/**
 * The last want, how much of it has come, and how fast. The kernel sends nothing that was not
 * asked for. A want lists the frames that are still missing, most wanted first, and replaces the
 * one before it; nothing ever queues.
 */
export class Demand {
  #channel;
  #generation = 0;
  #seen = 0; // number of the last item that came
  #said = "";
  #at = Infinity; // when it was sent
  #credit = 0;
  #listed = 0;
  #got = 0;
  #asked = null; // since when an answer has been waited for
  #open = new Map(); // index -> when it was first asked for

  trip = new RoundTrip();
  arrived = new Rate();

  constructor(channel) {
    this.#channel = channel;
  }

  /** What was asked for is no longer what is wanted. */
  turn() {
    this.#generation += 1;
  }

  /** Whether something that was asked for has not come. */
  get open() {
    return this.#got < this.#listed;
  }

  get waits() {
    return this.#asked !== null;
  }

  /** Milliseconds that an answer has been waited for. */
  get waiting() {
    return this.waits ? now() - this.#asked : 0;
  }

  get inFlight() {
    return this.waits ? Math.min(this.#credit, this.#open.size) : 0;
  }

  /** It was sent so long ago that it may be lost. */
  get old() {
    return now() - this.#at > ASK_AGAIN_MS;
  }

  /** Half of what may be under way has come. */
  get halved() {
    return this.#got >= Math.min(Math.max(1, this.#credit >> 1), this.#listed);
  }

  /** Ask for a list; `again`: though the same was asked for before. */
  send({ ver, view, fmt, list, credit }, again) {
    const time = now();
    const message = { type: "want", gen: this.#generation, ver, view, idx: list, fmt, seen: this.#seen, credit };
    // without frames nothing changes but the numbers
    const said = list.length ? JSON.stringify(message) : "";
    if (said === this.#said && !again) return;
    this.#said = said;
    this.#at = time;
    if (list.length === 0) this.#asked = null;
    else this.#asked ??= time;
    for (const i of list.slice(0, credit)) if (!this.#open.has(i)) this.#open.set(i, time);
    this.#credit = credit;
    this.#listed = list.length;
    this.#got = 0;
    this.#channel.post(message);
  }

  /** A part of an item is here. */
  heard({ seq }) {
    this.#seen = Math.max(this.#seen, seq ?? 0);
  }

  /** All of an item is here, be it out of date or not. */
  took() {
    this.#got += 1;
  }

  /** Frame `i` is here, as it is wanted. */
  came(i, time) {
    if (this.#open.has(i)) {
      this.trip.add(time - this.#open.get(i));
      this.#open.delete(i);
    }
    this.arrived.add(time);
  }

  /** Frame `i` will not come. */
  drop(i) {
    this.#open.delete(i);
  }

  dropAll() {
    this.#open.clear();
  }

  /** The kernel has answered. */
  answered() {
    this.#asked = this.open ? now() : null;
    if (this.#open.size > 4 * LIST_LENGTH) this.#open.clear();
  }
}
