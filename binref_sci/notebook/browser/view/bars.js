// The colour bars beside, or below, all panels.

import { barLabel } from "../pure/words.js";
import { drawBar } from "./bar.js";
import { drawn } from "./canvas.js";
import { attribute, element } from "./dom.js";
import { tall } from "./layout.js";

export class Bars {
  #scales;
  #paper;
  #shown = [];

  node = element("div", { class: "br-bars" });
  bad = false; // a colour for cells without data has been seen

  constructor(scales, paper) {
    this.#scales = scales;
    this.#paper = paper;
  }

  /** Have bars for these colour scales. */
  build(scales) {
    this.#shown = scales.map((scale) => ({ scale, canvas: element("canvas", { class: "br-bar", role: "img" }) }));
    this.node.replaceChildren(...this.canvases);
  }

  get canvases() {
    return this.#shown.map(({ canvas }) => canvas);
  }

  /** The scales as Python tells them, in order. */
  get told() {
    return this.#shown.map(({ scale }) => this.#scales.told[scale] ?? {});
  }

  draw(plan) {
    if (plan.panels.length === 0) return;
    const { ratio, inks } = this.#paper;
    const { vertical } = plan;
    this.#shown.forEach(({ scale, canvas }, order) => {
      const colours = this.#scales.drawn(scale);
      const table = this.#scales.tables[scale];
      if (!table) return;
      attribute(canvas, "aria-label", barLabel(colours));
      const { box, width, height } = vertical ? beside(plan, order) : below(plan);
      drawn(canvas, width, height, ratio, (context) => {
        drawBar(context, box, { colours, table, vertical, bad: this.bad, inks });
      });
    });
  }
}

function beside(plan, order) {
  const { top } = plan.panels[0].margins;
  const height = tall(plan);
  return { box: { x: 1, y: top, width: 14, height }, width: plan.barWidths[order], height: top + height + 26 };
}

function below({ panels: [{ margins, width }], columns }) {
  const whole = (width + margins.left + margins.right) * columns;
  const wide = whole - margins.left - margins.right;
  return { box: { x: margins.left, y: 6, width: Math.max(80, wide), height: 12 }, width: whole, height: 58 };
}
