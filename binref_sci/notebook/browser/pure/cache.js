// The cache of frames.

import { distance } from "./order.js";

export const FRAME_OVERHEAD = 256; // bytes of bookkeeping a cached frame: bounds the count of tiny ones

/** Frames by view and index, bounded in bytes; the farthest from the playhead go first. */
export class FrameCache {
  #frames = new Map(); // view id -> index -> frame

  constructor(limit) {
    this.limit = limit;
    this.bytes = 0;
    this.changes = 0; // lets the bar of cached frames know when to draw
  }

  get(view, i) {
    return this.#frames.get(view)?.get(i);
  }

  has(view, i) {
    return this.#frames.get(view)?.has(i) === true;
  }

  indices(view) {
    return this.#frames.get(view)?.keys() ?? [];
  }

  get count() {
    let count = 0;
    for (const frames of this.#frames.values()) count += frames.size;
    return count;
  }

  put(view, i, frame) {
    let frames = this.#frames.get(view);
    if (!frames) this.#frames.set(view, (frames = new Map()));
    const old = frames.get(i);
    if (old) this.bytes -= old.bytes + FRAME_OVERHEAD;
    frames.set(i, frame);
    this.bytes += frame.bytes + FRAME_OVERHEAD;
    this.changes += 1;
  }

  clear() {
    this.#frames.clear();
    this.bytes = 0;
    this.changes += 1;
  }

  /** A frame of any view for `i`, the views in the order given. */
  best(views, i) {
    for (const view of views) {
      const frame = this.get(view, i);
      if (frame) return frame;
    }
    return undefined;
  }

  /** The cached frame nearest to `i` among these views. */
  nearest(views, i) {
    let best;
    let least = Infinity;
    for (const view of views) {
      for (const [at, frame] of this.#frames.get(view) ?? []) {
        const apart = Math.abs(at - i);
        if (apart < least && !frame.failed) {
          least = apart;
          best = frame;
        }
      }
    }
    return best;
  }

  /**
   * Give up frames until a twentieth below the limit, if above it. `kept` are the views in use;
   * frames of others go first.
   */
  evict({ index, direction, n, loop, first, last, kept }) {
    if (this.bytes <= this.limit) return;
    const costs = [];
    for (const [view, frames] of this.#frames) {
      const foreign = kept.includes(view) ? 0 : Number.MAX_SAFE_INTEGER / 4;
      for (const i of frames.keys()) {
        costs.push({ view, i, cost: foreign + distance(i, index, direction, n, loop, first, last) });
      }
    }
    costs.sort((a, b) => b.cost - a.cost);
    const goal = this.limit * 0.95;
    for (const { view, i, cost } of costs) {
      if (this.bytes <= goal || cost === 0) break;
      const frames = this.#frames.get(view);
      this.bytes -= frames.get(i).bytes + FRAME_OVERHEAD;
      frames.delete(i);
      if (frames.size === 0) this.#frames.delete(view);
    }
    this.changes += 1;
  }
}

/** Share of each of `cells` equal pieces of 0..n-1 that is among `indices`. */
export function coverage(indices, n, cells) {
  const share = new Float32Array(cells);
  for (const i of indices) {
    if (i >= n) continue;
    const first = (i * cells) / n;
    const stop = ((i + 1) * cells) / n;
    for (let cell = Math.floor(first); cell < stop && cell < cells; cell += 1) {
      share[cell] += Math.min(stop, cell + 1) - Math.max(first, cell);
    }
  }
  return share;
}
