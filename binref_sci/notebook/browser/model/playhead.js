// Where the film is, and which way it goes.

import { following, markedPart, upcoming } from "../pure/order.js";

/** The playhead of `n` frames and the settings of how it moves. */
export class Playhead {
  playing = false;

  constructor(channel, n) {
    const get = (name, otherwise) => channel.get(name, otherwise);
    this.n = get("n", n);
    this.index = this.#within(get("index", 0));
    this.fps = get("fps", 20);
    this.mode = get("mode", "every");
    this.loop = get("loop", "loop");
    this.direction = get("direction", 1);
    this.stride = Math.max(1, get("stride", 1));
    this.part = get("part", []);
  }

  get last() {
    return Math.max(0, this.n - 1);
  }

  /** Whether every frame is shown, be it late; else time is kept. */
  get every() {
    return this.mode === "every";
  }

  #within(index) {
    return Math.min(Math.max(0, index), this.last);
  }

  go(index) {
    this.index = this.#within(Math.round(index));
  }

  get order() {
    const { n, loop, stride, part } = this;
    const [first, last] = part.length === 2 ? part.map((at) => Math.min(at, n - 1)) : [0, n - 1];
    return { n, loop, stride, first, last };
  }

  /** Whether nothing comes after the frame it is at. */
  get ended() {
    return this.loop === "once" && following(this.index, this.direction, this.order).ended;
  }

  /** Where playing begins. */
  get start() {
    return this.direction > 0 ? this.order.first : this.order.last;
  }

  /** Up to `count` frames to come. */
  upcoming(count) {
    return upcoming(this.index, this.direction, this.order, count);
  }

  /** Mark the start ("in") or the end ("out") of the part that is played ("all": no part); the part. */
  marked(what) {
    return what === "all" ? [] : markedPart(this.part, what, this.index, this.n);
  }

  /** What one button for all of it marks: the start, then the end, then all again. */
  get markedNext() {
    const { index, n, part } = this;
    if (part.length === 0) return index < n - 1 ? "in" : "out";
    return part[1] === n - 1 && index > part[0] ? "out" : "all";
  }
}
