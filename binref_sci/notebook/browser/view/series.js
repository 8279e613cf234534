// Time series of the pinned points.

import { extentOf, seriesRange, shareAt, stepAt } from "../pure/series.js";
import { ticksOf } from "../pure/ticks.js";
import { MEDIUM, SMALL, TICK, drawAxes } from "./axes.js";
import { prepare } from "./canvas.js";
import { drawCurve } from "./curve.js";
import { attribute, button, element, show } from "./dom.js";

const CHART_HEIGHT = 150;

/** A chart with a playhead that can be dragged, and a chip for each pin. */
export class Series {
  #player;
  #paper;
  #chart = element("canvas", { class: "br-chart", role: "img" });
  #playhead = element("div", { class: "br-playhead", "aria-hidden": "true" });
  #chips = element("div", { class: "br-chips" });
  #size = { width: 0, left: 0 };
  #left = 0; // margin that the labels so far have needed
  #box = null; // of the chart inside its axes
  #shown = null; // the pins that there are chips for

  constructor(player, paper) {
    this.#player = player;
    this.#paper = paper;
    const plot = element("div", { class: "br-plot" }, this.#chart, this.#playhead);
    this.node = element("div", { class: "br-series", hidden: true }, plot, this.#chips);
    this.#chart.addEventListener("pointerdown", (event) => {
      this.#chart.setPointerCapture(event.pointerId);
      this.#drag(event);
    });
    this.#chart.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) this.#drag(event);
    });
  }

  #drag({ clientX }) {
    const { left } = this.#chart.getBoundingClientRect();
    const box = this.#box;
    if (!box || this.#player.playhead.n < 2) return;
    const share = Math.min(1, Math.max(0, (clientX - left - box.x) / box.width));
    this.#player.seek(stepAt(this.#range, share), { scrub: true });
  }

  get #range() {
    return seriesRange(this.#player.pins, this.#player.playhead.n);
  }

  /** Have this `width`, and a margin at the left like that of the pictures. */
  relayout(width, left) {
    this.#size = { width, left };
    this.draw();
  }

  /** Show a chip for each pin; whether there are others than before. */
  paintPins() {
    const { pins } = this.#player;
    const key = [...pins].map((pin) => `${pin.id}/${pin.text}/${pin.done}`).join();
    if (key === this.#shown) return false;
    const before = this.node.hidden;
    this.#shown = key;
    show(this.node, pins.size > 0);
    this.#chips.replaceChildren(...[...pins].map((pin) => this.#chip(pin)));
    if (before !== this.node.hidden || !this.node.hidden) this.draw();
    return true;
  }

  #chip({ id, hue, text, done }) {
    const dot = element("span", { class: "br-dot" });
    dot.style.background = this.#paper.curve(hue);
    const words = text || "reading …";
    const progress = done > 0 && done < 1 ? ` ${Math.floor(done * 100)} %` : "";
    const remove = button("unpin", `Remove the pin at ${words}`, () => this.#player.pins.unpin(id), { text: "×" });
    return element("span", { class: "br-chip" }, dot, `${words}${progress}`, remove);
  }

  draw() {
    const { pins, scene } = this.#player;
    const { width } = this.#size;
    if (pins.size === 0 || !width) return;
    const left = Math.max(this.#left, this.#size.left);
    const box = { x: left, y: 8, width: Math.max(60, width - left - 14), height: CHART_HEIGHT - 8 - 38 };
    const context = prepare(this.#chart, width, CHART_HEIGHT, this.#paper.ratio);
    const [low, high] = extentOf(pins);
    const margin = (high - low || Math.abs(high) || 1) * 0.06;
    const values = { lo: low - margin, hi: high + margin };
    const range = this.#range;
    const label = [...pins].find((pin) => pin.unit)?.unit ?? "";
    const yTicks = ticksOf(values.lo, values.hi, 4);
    const needed = this.#needed(context, yTicks, label);
    this.#box = box;
    if (needed > left) {
      this.#left = needed + 8;
      this.draw();
      return;
    }
    drawAxes(context, box, {
      x: range.times?.xlabel ?? scene.dim,
      y: label,
      showX: true,
      showY: true,
      xTicks: ticksOf(range.lo, range.hi, box.width / 90),
      yTicks,
      inks: this.#paper.inks,
    });
    this.#drawCurves(context, box, range, values);
    const where = [...pins].map((pin) => pin.text).filter(Boolean).join("; ");
    attribute(this.#chart, "aria-label", `Time series of ${pins.size} pinned points: ${where}`);
    this.paintPlayhead();
  }

  /** The margin that labels of the values need. */
  #needed(context, ticks, label) {
    context.font = `${SMALL}px ${this.#paper.inks.font}`;
    const words = Math.max(0, ...ticks.map(([, text]) => context.measureText(text).width));
    return Math.ceil(words) + TICK + 6 + (label ? MEDIUM + 8 : 0);
  }

  #drawCurves(context, box, { times, lo, hi }, range) {
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.width, box.height);
    context.clip();
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    for (const pin of this.#player.pins) {
      context.strokeStyle = this.#paper.curve(pin.hue);
      const { steps, values } = pin;
      const at = times && pin.times ? pin.times : steps;
      const xs = (k) => box.x + ((at[k] - lo) / (hi - lo)) * box.width;
      const ys = (k) => box.y + (1 - (values[k] - range.lo) / (range.hi - range.lo)) * box.height;
      drawCurve(context, values.length, xs, ys, Math.round(box.width * this.#paper.ratio));
    }
    context.restore();
  }

  paintPlayhead() {
    if (this.node.hidden || !this.#box) return;
    const { x, y, width, height } = this.#box;
    const share = Math.min(1, Math.max(0, shareAt(this.#range, this.#player.playhead.index)));
    this.#playhead.style.transform = `translateX(${(x + share * width).toFixed(1)}px)`;
    this.#playhead.style.top = `${y}px`;
    this.#playhead.style.height = `${height}px`;
  }
}
