// What the displays show.

import { now } from "../pure/clock.js";

/** The displays of one player, painted together at the next animation frame. */
export class Screen {
  #request = 0;
  #touched = false; // more than the playhead may have changed
  #stale = false; // what was painted may have been lost
  #closed = false;
  #callbacks;

  displays = new Set();
  shown = null; // the frame that was painted last
  former = null; // the one of before the frames became wrong, until its successor comes

  /**
   * Before it is painted `tick(time)` is called, then `choose()` for the frame, and after it
   * `painted(started)` where the frame is another; while `moving()` it goes on.
   */
  constructor(callbacks) {
    this.#callbacks = callbacks;
  }

  /** Level of detail of the display that looks most closely; 0: none can be seen. */
  get lod() {
    let lod = Infinity;
    for (const display of this.displays) if (display.visible) lod = Math.min(lod, display.lod);
    return Number.isFinite(lod) ? lod : 0;
  }

  get visible() {
    if (document.visibilityState === "hidden") return false;
    for (const display of this.displays) if (display.visible) return true;
    return false;
  }

  /** The frames are wrong from now on; what is shown stays until its successor comes. */
  renew() {
    this.former = this.shown ?? this.former;
  }

  relayout() {
    for (const display of this.displays) display.relayout();
    this.refresh();
  }

  /** The playhead has moved: what is shown is not it, until it has been painted. */
  inexact() {
    for (const display of this.displays) display.inexact();
  }

  /** Exact values have come. */
  answerHover() {
    for (const display of this.displays) display.answerHover();
  }

  /** What was drawn beside the pictures, or on them, has changed. */
  redraw() {
    for (const display of this.displays) display.drawSeries();
    this.repaint();
  }

  /** Paint all again. */
  repaint() {
    this.#stale = true;
    this.refresh();
  }

  /** Paint at the next animation frame; `all`: more than the playhead may have changed. */
  refresh(all = true) {
    this.#touched ||= all;
    if (this.#request || this.#closed) return;
    this.#request = requestAnimationFrame((time) => this.#animate(time));
  }

  #animate(time) {
    const { tick, moving } = this.#callbacks;
    this.#request = 0;
    if (this.#closed) return;
    tick(time);
    this.#paint();
    if (moving()) this.refresh(false);
  }

  #paint() {
    const { choose, painted } = this.#callbacks;
    const frame = choose();
    const fresh = frame !== this.shown;
    this.shown = frame;
    const started = now();
    const all = this.#touched || this.#stale;
    for (const display of this.displays) display.paint(frame, { stale: this.#stale, all });
    this.#stale = false;
    this.#touched = false;
    if (fresh && frame) {
      this.former = null;
      painted(started);
    }
  }

  close() {
    cancelAnimationFrame(this.#request);
    this.#closed = true;
    this.displays.clear();
  }
}
