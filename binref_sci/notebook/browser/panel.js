import { colour } from "./colours.js";
import { WHOLE, inside, zoomed } from "./windows.js";
import { attribute, drawn, element, flag, prepare, show } from "./pieces.js";
import { MOST_NAMED, axisTicks, drawAxes, drawBar, drawCurve } from "./drawings.js";
import { barLabel } from "./view.js";

// --- DOM: one panel ------------------------------------------------------------------------------

/** A picture (or curves) with its axes; what moves lies above it as plain elements. */
export class Panel {
  constructor(view, index) {
    this.view = view;
    this.index = index;
    this.images = new Map(); // shape -> ImageData and its pixels: nothing is allocated a frame
    this.axes = element("canvas", { class: "br-axes", "aria-hidden": "true" });
    this.picture = element("canvas", { class: "br-picture", role: "img" });
    this.context = this.picture.getContext("2d");
    this.marks = element("div", { class: "br-marks", "aria-hidden": "true" });
    this.band = element("div", { class: "br-band", hidden: true });
    this.marks.append(this.band);
    this.note = element("p", { class: "br-note", hidden: true });
    this.legend = element("div", { class: "br-legend" });
    this.box = element("div", { class: "br-box" }, this.picture, this.marks, this.legend, this.note);
    flag(this.box, "kind", view.player.scene.kind);
    this.bar = element("canvas", { class: "br-own-bar", role: "img", hidden: true });
    this.node = element("div", { class: "br-panel" }, this.axes, this.box, this.bar);
    this.frame = null;
    this.listen();
  }

  get player() {
    return this.view.player;
  }

  get scene() {
    return this.player.scene.panels[this.index];
  }

  get line() {
    return this.player.scene.kind === "line";
  }

  get colours() {
    return this.player.colours[this.scene.colour] ?? {};
  }

  // --- layout ---

  /** Axes of the panel in the present window, with ticks for about this many pixels. */
  scales(width, height) {
    const { x, y } = this.scene;
    const [left, top, right, bottom] = this.player.window ?? WHOLE;
    const upright = this.line ? this.valueAxis() : y;
    return {
      x: x.label,
      y: upright.label,
      xTicks: axisTicks(x, left, right, Math.max(2, width / 90)),
      yTicks: axisTicks(upright, 1 - bottom, 1 - top, Math.max(2, height / 60)),
    };
  }

  valueAxis() {
    const { vmin = 0, vmax = 1, label = "" } = this.colours;
    const margin = (vmax - vmin) * 0.04;
    return { lo: vmin - margin, hi: vmax + margin, label: this.scene.y?.label || label };
  }

  place({ margins, width, height, showX, showY, title, barHeight }) {
    const { ratio, inks: ink } = this.view;
    const whole = { width: margins.left + width + margins.right, height: margins.top + height + margins.bottom };
    this.size = { width, height };
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
      drawAxes(context, box, { ...this.scales(width, height), title, showX, showY, inks: ink });
    });
    show(this.bar, barHeight > 0);
    if (barHeight > 0) {
      this.bar.style.top = `${whole.height - barHeight}px`;
      this.drawOwnBar(margins, width, barHeight);
    }
    if (this.line) {
      prepare(this.picture, width, height, ratio);
      this.drawLegend();
    }
    this.drawPins();
    this.frame = null;
  }

  // --- painting ---

  paint(frame) {
    if (this.line) this.paintCurves(frame);
    else this.paintCodes(frame);
    this.frame = frame;
  }

  paintCodes(frame) {
    const table = this.player.tables[this.scene.colour];
    const shape = frame.shapes[this.index];
    const codes = frame.codes?.[this.index];
    if (!table || !codes) return;
    const [rows, columns] = shape;
    if (rows === 0 || columns === 0) return; // an axis without cells: nothing to paint
    const key = rows * 1e6 + columns;
    let image = this.images.get(key);
    if (!image) {
      if (this.images.size > 3) this.images.clear();
      const data = new ImageData(columns, rows);
      image = { data, pixels: new Uint32Array(data.data.buffer) };
      this.images.set(key, image);
    }
    if (this.picture.width !== columns) this.picture.width = columns;
    if (this.picture.height !== rows) this.picture.height = rows;
    colour(codes, table, image.pixels);
    this.context.putImageData(image.data, 0, 0);
    this.fit(frame);
  }

  /** Lay the frame, which shows its own window, into the window that is looked at. */
  fit(frame) {
    const [left, right, top, bottom] = frame.window ?? [0, 1, 0, 1];
    const [l, t, r, b] = this.player.window ?? WHOLE;
    const { width, height } = this.size;
    const place =
      `${((left - l) / (r - l)) * width},${((top - t) / (b - t)) * height},` +
      `${((right - left) / (r - l)) * width},${((bottom - top) / (b - t)) * height}`;
    if (place === this.placed) return;
    this.placed = place;
    const [x, y, across, down] = place.split(",");
    Object.assign(this.picture.style, { left: `${x}px`, top: `${y}px`, width: `${across}px`, height: `${down}px` });
    flag(this.picture, "shrunk", across < this.picture.width ? "1" : "0");
  }

  paintCurves(frame) {
    const values = frame.values?.[this.index];
    if (!values || !this.size) return;
    const { width, height } = this.size;
    const context = prepare(this.picture, width, height, this.view.ratio);
    const [curves, points] = frame.shapes[this.index];
    const [l, t, r, b] = this.player.window ?? WHOLE;
    const { lo, hi } = this.valueAxis();
    const [from, to] = frame.window ?? [0, 1];
    const coords = this.player.coords[this.index];
    const { x } = this.scene;
    const lod = frame.lod ?? 1;
    const first = coords ? Math.round(from * coords.length) : 0;
    const along = (k) => {
      if (coords && coords.length >= points) {
        const at = coords[Math.min(first + k * lod, coords.length - 1)];
        return (at - x.lo) / (x.hi - x.lo);
      }
      return from + ((k + 0.5) / points) * (to - from);
    };
    const xs = (k) => ((along(k) - l) / (r - l)) * width;
    context.lineWidth = 1.6;
    context.lineJoin = "round";
    for (let curve = 0; curve < curves; curve += 1) {
      context.strokeStyle = this.view.inks.curves[curve % this.view.inks.curves.length];
      const offset = curve * points;
      const ys = (k) => {
        const up = (values[offset + k] - lo) / (hi - lo);
        return ((1 - up - t) / (b - t)) * height;
      };
      drawCurve(context, points, xs, ys, Math.round(width * this.view.ratio));
    }
  }

  drawOwnBar(margins, width, barHeight) {
    const colours = this.view.scaleOf(this.scene.colour);
    const table = this.player.tables[this.scene.colour];
    if (!table) return;
    const box = { x: margins.left, y: 6, width, height: 10 };
    attribute(this.bar, "aria-label", barLabel(colours));
    drawn(this.bar, margins.left + width + margins.right, barHeight, this.view.ratio, (context) => {
      drawBar(context, box, { colours, table, vertical: false, bad: false, inks: this.view.inks });
    });
  }

  drawLegend() {
    const { lines = [] } = this.scene;
    const { curves } = this.view.inks;
    const names = lines.slice(0, MOST_NAMED).map((label, k) => {
      const dash = element("span", { class: "br-dash" });
      dash.style.background = curves[k % curves.length];
      return element("span", {}, dash, label);
    });
    const more = lines.length > MOST_NAMED ? [element("span", {}, `and ${lines.length - MOST_NAMED} more`)] : [];
    this.legend.replaceChildren(...(lines.length > 1 ? names : []), ...more);
  }

  drawPins() {
    for (const old of this.marks.querySelectorAll(".br-pin")) old.remove();
    const [l, t, r, b] = this.player.window ?? WHOLE;
    for (const pin of this.player.pins.values()) {
      if (pin.panel !== this.index) continue;
      const fx = (pin.fx - l) / (r - l);
      const fy = (pin.fy - t) / (b - t);
      if (fx < 0 || fx > 1 || fy < 0 || fy > 1) continue;
      const mark = element("span", { class: "br-pin" });
      mark.style.left = `${fx * 100}%`;
      mark.style.top = `${fy * 100}%`;
      mark.style.setProperty("--br-pin", this.view.inks.curves[pin.hue % this.view.inks.curves.length]);
      this.marks.append(mark);
    }
  }

  // --- pointer ---

  /** The point of the picture under the pointer: inside the box (bx, by), of the whole (fx, fy). */
  at(event) {
    const { left, top, width, height } = this.box.getBoundingClientRect();
    const [l, t, r, b] = this.player.window ?? WHOLE;
    const bx = Math.min(1, Math.max(0, (event.clientX - left) / width));
    const by = Math.min(1, Math.max(0, (event.clientY - top) / height));
    const most = 1 - 1e-9;
    return { bx, by, fx: Math.min(most, l + bx * (r - l)), fy: Math.min(most, t + by * (b - t)) };
  }

  listen() {
    const { box } = this;
    box.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      box.setPointerCapture(event.pointerId);
      this.drag = { ...this.at(event), pan: event.shiftKey && this.player.window !== null, moved: false };
      this.drag.window = this.player.window;
    });
    box.addEventListener("pointermove", (event) => {
      const point = this.at(event);
      if (this.drag) this.dragTo(point);
      else this.view.hover(this.index, point);
    });
    box.addEventListener("pointerup", (event) => {
      const { drag } = this;
      this.drag = null;
      show(this.band, false);
      if (!drag) return;
      const point = this.at(event);
      if (!drag.moved) {
        if (this.player.can("series")) this.player.pin(this.index, point.fx, point.fy);
      } else if (!drag.pan) {
        const window = [
          Math.min(drag.fx, point.fx), Math.min(drag.fy, point.fy),
          Math.max(drag.fx, point.fx), Math.max(drag.fy, point.fy),
        ];
        if (window[2] - window[0] > 1e-4 && window[3] - window[1] > 1e-4) this.player.zoom(inside(window));
      }
    });
    box.addEventListener("pointercancel", () => this.cancel());
    box.addEventListener("pointerleave", () => {
      if (!this.drag) this.view.hover(null);
    });
    box.addEventListener("dblclick", (event) => event.preventDefault());
    box.addEventListener(
      "wheel",
      (event) => {
        // the page scrolls as ever, unless the picture was clicked or Ctrl is held
        if (!event.ctrlKey && !event.metaKey && !this.view.focused) return;
        event.preventDefault();
        const { bx, by } = this.at(event);
        const turned = event.deltaMode === 1 ? event.deltaY * 30 : event.deltaY;
        this.player.zoom(zoomed(this.player.window, bx, by, Math.exp(turned / 400)));
      },
      { passive: false },
    );
  }

  cancel() {
    const dragging = this.drag !== null && this.drag !== undefined;
    this.drag = null;
    show(this.band, false);
    return dragging;
  }

  dragTo(point) {
    const { drag } = this;
    const { width, height } = this.size;
    const across = Math.abs(point.bx - drag.bx) * width;
    const down = Math.abs(point.by - drag.by) * height;
    if (!drag.moved && across < 4 && down < 4) return;
    drag.moved = true;
    if (drag.pan) {
      const [l, t, r, b] = drag.window;
      const x = (drag.bx - point.bx) * (r - l);
      const y = (drag.by - point.by) * (b - t);
      this.player.zoom(inside([l + x, t + y, r + x, b + y]));
      return;
    }
    show(this.band, true);
    Object.assign(this.band.style, {
      left: `${Math.min(point.bx, drag.bx) * 100}%`,
      top: `${Math.min(point.by, drag.by) * 100}%`,
      width: `${across}px`,
      height: `${down}px`,
    });
  }
}

