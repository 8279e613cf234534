// What has come of the film.

import { Parts, numbersOf } from "../pure/bytes.js";
import { FRAME_OVERHEAD, FrameCache } from "../pure/cache.js";

const MOST_LABELS = 5000;

/** Frames of one version of the colours: those that are here, and why others cannot be. */
export class Frames {
  #parts = new Parts();
  #floats = null; // exact values of one frame

  labels = new Map();
  failed = new Map();
  coords = []; // of the points of lines, by panel

  constructor(ver, limit) {
    this.ver = ver;
    this.cache = new FrameCache(limit);
  }

  /** The frames are wrong from now on. */
  renew(ver) {
    this.ver = ver;
    this.clear();
    this.failed.clear();
    this.labels.clear();
  }

  clear() {
    this.cache.clear();
    this.#parts.clear();
    this.#floats = null;
  }

  /** How many frames of so many bytes are kept ahead. */
  capacity(bytes) {
    return Math.max(1, Math.floor((0.7 * this.cache.limit) / (bytes + FRAME_OVERHEAD)));
  }

  /** Whether there is nothing to ask for: frame `i` is here, or cannot be had. */
  known(view, i) {
    return this.failed.has(i) || this.cache.has(view.id, i);
  }

  /** The buffers of a frame once all of its parts are here, else null. */
  whole(item, buffers) {
    return this.#parts.add(item, buffers, item.fmt === "f32" ? 4 : 1);
  }

  /** Keep a frame; of a picture ("f32" codes no colours) exact values. Whether it is those. */
  keep(item, buffers, line) {
    const frame = { ...item, rows: undefined };
    if (item.fmt === "f32") frame.values = buffers.map((bytes) => numbersOf(Float32Array, bytes));
    if (item.fmt === "f32" && !line) {
      this.#floats = frame;
      return true;
    }
    if (!line) frame.codes = buffers;
    frame.bytes = buffers.reduce((sum, bytes) => sum + bytes.length, 0);
    if (this.labels.size > MOST_LABELS) this.labels.clear();
    this.labels.set(item.i, item.label);
    this.cache.put(item.view, item.i, frame);
    return false;
  }

  fail(i, text) {
    this.failed.set(i, text);
    this.cache.changes += 1;
  }

  // --- exact values of the frame at rest ---

  hasValues(i, view) {
    return this.#floats !== null && this.#floats.i === i && this.#floats.view === view.id;
  }

  dropValues() {
    this.#floats = null;
  }

  /** The exact value at a point of frame `i` if it is here, else undefined. */
  valueAt(i, panel, fx, fy) {
    const floats = this.#floats;
    if (!floats || floats.i !== i || floats.ver !== this.ver) return undefined;
    const [left, right, top, bottom] = floats.window ?? [0, 1, 0, 1];
    const [rows, columns] = floats.shapes[panel];
    const column = Math.floor(((fx - left) / (right - left)) * columns);
    const row = Math.floor(((fy - top) / (bottom - top)) * rows);
    if (column < 0 || row < 0 || column >= columns || row >= rows) return undefined;
    return floats.values[panel][row * columns + column];
  }
}
