// One panel.

import { colour } from "../pure/colours.js";
import { axisTicks } from "../pure/ticks.js";
import { WHOLE } from "../pure/windows.js";
import { barLabel, format } from "../pure/words.js";
import { drawAxes } from "./axes.js";
import { drawBar } from "./bar.js";
import { drawn, prepare } from "./canvas.js";
import { drawCurve } from "./curve.js";
import { attribute, element, flag, say, show } from "./dom.js";
import { Pointer } from "./pointer.js";

const MOST_NAMED = 8; // curves in a legend: as many as there are colours

/** A picture (or curves) with its axes; what moves lies above it as plain elements. */
export class Panel {
  #player;
  #paper;
  #index;
  #images = new Map(); // shape -> ImageData and its pixels: nothing is allocated a frame
  #context;
  #placed = ""; // where the picture lies in its box
  #size = null;
  #pointer;
  #marks;
  #note;
  #legend;

  /** `handlers` are those of its pointer. */
  constructor(player, paper, index, handlers) {
    this.#player = player;
    this.#paper = paper;
    this.#index = index;
    this.axes = element("canvas", { class: "br-axes", "aria-hidden": "true" });
    this.picture = element("canvas", { class: "br-picture", role: "img" });
    this.#context = this.picture.getContext("2d");
    this.#marks = element("div", { class: "br-marks", "aria-hidden": "true" });
    this.#note = element("p", { class: "br-note", hidden: true });
    this.#legend = element("div", { class: "br-legend" });
    this.box = element("div", { class: "br-box" }, this.picture, this.#marks, this.#legend, this.#note);
    flag(this.box, "kind", player.scene.kind);
    this.bar = element("canvas", { class: "br-own-bar", role: "img", hidden: true });
    this.node = element("div", { class: "br-panel" }, this.axes, this.box, this.bar);
    this.#pointer = new Pointer(this.box, () => player.look.window, handlers);
    this.#marks.append(this.#pointer.band);
  }

  get #scene() {
    return this.#player.scene.panels[this.#index];
  }

  get line() {
    return this.#player.look.line;
  }

  get #window() {
    return this.#player.look.window ?? WHOLE;
  }

  /** End what the pointer is doing; whether it did something. */
  cancel() {
    return this.#pointer.cancel();
  }

  // --- layout ---

  /** Axes of the panel in the present window, with ticks for about this many pixels. */
  scales(width, height) {
    const { x, y } = this.#scene;
    const [left, top, right, bottom] = this.#window;
    const upright = this.line ? this.#valueAxis() : y;
    return {
      x: x.label,
      y: upright.label,
      xTicks: axisTicks(x, left, right, Math.max(2, width / 90)),
      yTicks: axisTicks(upright, 1 - bottom, 1 - top, Math.max(2, height / 60)),
    };
  }

  #valueAxis() {
    const { vmin = 0, vmax = 1, label = "" } = this.#player.scales.told[this.#scene.colour] ?? {};
    const margin = (vmax - vmin) * 0.04;
    return { lo: vmin - margin, hi: vmax + margin, label: this.#scene.y?.label || label };
  }

  place({ margins, width, height, showX, showY, title, barHeight }) {
    const { ratio, inks } = this.#paper;
    const whole = { width: margins.left + width + margins.right, height: margins.top + height + margins.bottom };
    this.#size = { width, height };
    this.node.style.width = `${whole.width}px`;
    this.node.style.height = `${whole.height}px`;
    Object.assign(this.box.style, {
      left: `${margins.left}px`,
      top: `${margins.top}px`,
      width: `${width}px`,
      height: `${height}px`,
    });
    const box = { x: margins.left, y: margins.top, width, height };
    drawn(this.axes, whole.width, whole.height, ratio, (context) => {
      drawAxes(context, box, { ...this.scales(width, height), title, showX, showY, inks });
    });
    show(this.bar, barHeight > 0);
    if (barHeight > 0) {
      this.bar.style.top = `${whole.height - barHeight}px`;
      this.#drawBar(margins, width, barHeight);
    }
    if (this.line) {
      prepare(this.picture, width, height, ratio);
      this.#drawLegend();
    }
    this.drawPins();
  }

  #drawBar(margins, width, height) {
    const { scales } = this.#player;
    const { ratio, inks } = this.#paper;
    const { colour: scale } = this.#scene;
    const colours = scales.drawn(scale);
    const table = scales.tables[scale];
    if (!table) return;
    const box = { x: margins.left, y: 6, width, height: 10 };
    attribute(this.bar, "aria-label", barLabel(colours));
    drawn(this.bar, margins.left + width + margins.right, height, ratio, (context) => {
      drawBar(context, box, { colours, table, vertical: false, bad: false, inks });
    });
  }

  #drawLegend() {
    const { lines = [] } = this.#scene;
    const names = lines.slice(0, MOST_NAMED).map((label, k) => {
      const dash = element("span", { class: "br-dash" });
      dash.style.background = this.#paper.curve(k);
      return element("span", {}, dash, label);
    });
    const more = lines.length > MOST_NAMED ? [element("span", {}, `and ${lines.length - MOST_NAMED} more`)] : [];
    this.#legend.replaceChildren(...(lines.length > 1 ? names : []), ...more);
  }

  // --- what lies above the picture ---

  drawPins() {
    if (!this.#size) return;
    for (const old of this.#marks.querySelectorAll(".br-pin")) old.remove();
    const [l, t, r, b] = this.#window;
    for (const pin of this.#player.pins) {
      if (pin.panel !== this.#index) continue;
      const fx = (pin.fx - l) / (r - l);
      const fy = (pin.fy - t) / (b - t);
      if (fx < 0 || fx > 1 || fy < 0 || fy > 1) continue;
      const mark = element("span", { class: "br-pin" });
      mark.style.left = `${fx * 100}%`;
      mark.style.top = `${fy * 100}%`;
      mark.style.setProperty("--br-pin", this.#paper.curve(pin.hue));
      this.#marks.append(mark);
    }
  }

  /** Say why there is no picture; "": there is. */
  note(text) {
    say(this.#note, text);
    show(this.#note, text !== "");
  }

  /** Say what the picture shows to those who do not see it. */
  describe(frame) {
    const { name: film, kind } = this.#player.scene;
    const { title, x, y } = this.#scene;
    const stats = frame.stats?.[this.#index];
    const range = stats && stats.lo !== null ? `, values from ${format(stats.lo)} to ${format(stats.hi)}` : "";
    const axes = kind === "line" ? `over ${x.label}` : `over ${x.label} and ${y.label}`;
    const name = [film, title].filter(Boolean).join(", ");
    attribute(this.picture, "aria-label", `${name} ${axes} at ${frame.label ?? `step ${frame.i + 1}`}${range}`);
  }

  // --- painting ---

  paint(frame) {
    if (this.line) this.#paintCurves(frame);
    else this.#paintCodes(frame);
  }

  #paintCodes(frame) {
    const table = this.#player.scales.tables[this.#scene.colour];
    const codes = frame.codes?.[this.#index];
    if (!table || !codes) return;
    const [rows, columns] = frame.shapes[this.#index];
    if (rows === 0 || columns === 0) return; // an axis without cells: nothing to paint
    const { data, pixels } = this.#image(rows, columns);
    if (this.picture.width !== columns) this.picture.width = columns;
    if (this.picture.height !== rows) this.picture.height = rows;
    colour(codes, table, pixels);
    this.#context.putImageData(data, 0, 0);
    this.#fit(frame);
  }

  #image(rows, columns) {
    const key = rows * 1e6 + columns;
    let image = this.#images.get(key);
    if (!image) {
      if (this.#images.size > 3) this.#images.clear();
      const data = new ImageData(columns, rows);
      image = { data, pixels: new Uint32Array(data.data.buffer) };
      this.#images.set(key, image);
    }
    return image;
  }

  /** Lay the frame, which shows its own window, into the window that is looked at. */
  #fit(frame) {
    const [left, right, top, bottom] = frame.window ?? [0, 1, 0, 1];
    const [l, t, r, b] = this.#window;
    const { width, height } = this.#size;
    const place =
      `${((left - l) / (r - l)) * width},${((top - t) / (b - t)) * height},` +
      `${((right - left) / (r - l)) * width},${((bottom - top) / (b - t)) * height}`;
    if (place === this.#placed) return;
    this.#placed = place;
    const [x, y, across, down] = place.split(",");
    Object.assign(this.picture.style, { left: `${x}px`, top: `${y}px`, width: `${across}px`, height: `${down}px` });
    flag(this.picture, "shrunk", across < this.picture.width ? "1" : "0");
  }

  #paintCurves(frame) {
    const values = frame.values?.[this.#index];
    if (!values || !this.#size) return;
    const { width, height } = this.#size;
    const { ratio } = this.#paper;
    const context = prepare(this.picture, width, height, ratio);
    const [curves, points] = frame.shapes[this.#index];
    const [l, t, r, b] = this.#window;
    const { lo, hi } = this.#valueAxis();
    const along = this.#along(frame, points);
    const xs = (k) => ((along(k) - l) / (r - l)) * width;
    context.lineWidth = 1.6;
    context.lineJoin = "round";
    for (let curve = 0; curve < curves; curve += 1) {
      context.strokeStyle = this.#paper.curve(curve);
      const offset = curve * points;
      const ys = (k) => {
        const up = (values[offset + k] - lo) / (hi - lo);
        return ((1 - up - t) / (b - t)) * height;
      };
      drawCurve(context, points, xs, ys, Math.round(width * ratio));
    }
  }

  /** Where the k-th point of a frame lies along the axis, as a fraction of it. */
  #along({ window, lod = 1 }, points) {
    const [from, to] = window ?? [0, 1];
    const coords = this.#player.frames.coords[this.#index];
    if (!coords || coords.length < points) return (k) => from + ((k + 0.5) / points) * (to - from);
    const { x } = this.#scene;
    const first = Math.round(from * coords.length);
    return (k) => (coords[Math.min(first + k * lod, coords.length - 1)] - x.lo) / (x.hi - x.lo);
  }
}
