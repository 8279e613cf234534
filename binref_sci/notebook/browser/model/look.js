// What is looked at, and how closely.

import { WHOLE } from "../pure/windows.js";

const COARSE_CELLS = 128 * 128;

/** Scene, window and level of detail, and the views of the field that go with them. */
export class Look {
  #ids = new Map(); // what makes a view -> the view
  #last = null;

  window = null;
  lod = 0; // 0: no display has a size yet

  constructor(scene, reduce) {
    this.scene = scene;
    this.reduce = reduce;
  }

  get line() {
    return this.scene.kind === "line";
  }

  #viewFor(lod, how) {
    const { window } = this;
    const reduce = lod === 1 ? "stride" : how;
    const key = JSON.stringify([window, lod, reduce]);
    let view = this.#ids.get(key);
    if (!view) {
      const [left, top, right, bottom] = window ?? WHOLE;
      const wire = window ? [left, right, top, bottom] : null;
      view = { id: this.#ids.size + 1, window: wire, lod, reduce };
      this.#ids.set(key, view);
    }
    return view;
  }

  /**
   * The views in use, {play, rest, coarse}, and their ids, the best first, {playing, resting}.
   * Made anew only when what is looked at has changed.
   */
  get views() {
    const { window, lod, scene, reduce, line } = this;
    const old = this.#last;
    if (old && old.window === window && old.lod === lod && old.scene === scene && old.reduce === reduce) return old;
    // what was asked for, as a front is lost by leaving cells out; a mean only at rest
    const play = this.#viewFor(lod, line || reduce === "mean" ? "stride" : reduce);
    const rest = this.#viewFor(lod, line ? "stride" : reduce);
    const cells = this.cells(lod);
    // a picture small enough to come at once, where the exact one is not
    const big = !line && cells > 4 * COARSE_CELLS;
    const coarse = big ? this.#viewFor(lod * Math.ceil(Math.sqrt(cells / COARSE_CELLS)), "stride") : null;
    const ids = (...views) => [...new Set(views.filter(Boolean).map(({ id }) => id))];
    const playing = ids(play, coarse);
    const resting = ids(rest, play, coarse);
    this.#last = { window, lod, scene, reduce, play, rest, coarse, playing, resting };
    return this.#last;
  }

  /** Ids of the views in use, the best first. */
  kept(playing) {
    return playing ? this.views.playing : this.views.resting;
  }

  /** Ids of all views, newest first, but those that cover the whole window before all others. */
  get standIns() {
    const [left, top, right, bottom] = this.window ?? WHOLE;
    const covers = ({ window }) =>
      !window || (window[0] <= left && window[1] >= right && window[2] <= top && window[3] >= bottom);
    const views = [...this.#ids.values()].reverse();
    return [...views.filter(covers), ...views.filter((view) => !covers(view))].map(({ id }) => id);
  }

  /** Cells of all panels at a level of detail, inside the window. */
  cells(lod) {
    const [left, top, right, bottom] = this.window ?? WHOLE;
    const share = (right - left) * (bottom - top);
    const { line } = this;
    return this.scene.panels.reduce((sum, { rows, columns }) => {
      const reduced = line ? (rows * columns) / lod : (rows * columns) / (lod * lod);
      return sum + reduced * share;
    }, 0);
  }

  /** Bytes of a frame on its way, at a level of detail. */
  bytes(lod) {
    return this.cells(lod) * (this.line ? 4 : 1);
  }
}
