// The panels, their colour bars, and what lies over them.

import { lodOf } from "../pure/windows.js";
import { Bars } from "./bars.js";
import { button, element, flag, say, show } from "./dom.js";
import { planStage } from "./layout.js";
import { telemetryWords } from "./monitor.js";
import { Panel } from "./panel.js";

export class Stage {
  #player;
  #paper;
  #hover;
  #focused;
  #grid = element("div", { class: "br-grid" });
  #bars;
  #ownBars = false; // each panel has its own scale under it
  #unzoom;
  #monitor = element("div", { class: "br-monitor", hidden: true });

  panels = [];

  /** `hover(panel, point)` is told of the pointer, `focused()` whether the player has the focus. */
  constructor(player, paper, { hover, focused }) {
    this.#player = player;
    this.#paper = paper;
    this.#hover = hover;
    this.#focused = focused;
    this.#bars = new Bars(player.scales, paper);
    this.#unzoom = button("unzoom", "Show the whole picture", () => player.zoom(null), { text: "whole picture" });
    this.#unzoom.classList.add("br-unzoom");
    this.node = element("div", { class: "br-stage" }, this.#grid, this.#bars.node, this.#unzoom, this.#monitor);
    this.#build();
  }

  #build() {
    const { look, options, scene } = this.#player;
    this.panels = scene.panels.map((_, k) => new Panel(this.#player, this.#paper, k, this.#handlers(k)));
    this.#grid.replaceChildren(...this.panels.map((panel) => panel.node));
    const scales = look.line || options.show_bar === false ? [] : [...new Set(scene.panels.map((panel) => panel.colour))];
    this.#ownBars = scales.length > 1;
    this.#bars.build(this.#ownBars ? [] : scales);
  }

  #handlers(k) {
    const player = this.#player;
    return {
      hover: (point) => this.#hover(k, point),
      pin: ({ fx, fy }) => player.can("series") && player.pins.pin(k, fx, fy),
      zoom: (window) => player.zoom(window),
      // the page scrolls as ever, unless the picture was clicked or Ctrl is held
      wheels: ({ ctrlKey, metaKey }) => ctrlKey || metaKey || this.#focused(),
    };
  }

  /** What a picture of the stage is made of. */
  get bars() {
    return this.#bars.canvases;
  }

  // --- layout ---

  /** Lay out all in `inner` pixels; gives the plan. */
  place(inner, narrow) {
    const { options, scene } = this.#player;
    if (scene.panels.length !== this.panels.length) this.#build();
    const plan = planStage(scene, {
      inner,
      narrow,
      limit: options.height,
      bars: this.#bars.told,
      ownBars: this.#ownBars,
      scales: (k, width, height) => this.panels[k].scales(width, height),
      font: this.#paper.inks.font,
    });
    this.panels.forEach((panel, k) => panel.place(plan.panels[k]));
    this.#grid.style.gridTemplateColumns = `repeat(${plan.columns}, max-content)`;
    flag(this.node, "bar", plan.vertical ? "beside" : "below");
    this.#bars.draw(plan);
    const [first] = plan.panels;
    if (first) {
      this.#monitor.style.left = `${first.margins.left + first.width - 8}px`;
      this.#monitor.style.top = this.#unzoom.style.top = `${first.margins.top + 8}px`;
      this.#unzoom.style.left = `${first.margins.left + 8}px`;
    }
    return plan;
  }

  /** The level of detail that the panels need in a plan. */
  lod({ panels }) {
    const { look, scene } = this.#player;
    const { ratio } = this.#paper;
    let least = Infinity;
    scene.panels.forEach(({ rows, columns }, k) => {
      const { width, height } = panels[k];
      const [left, , right] = look.window ?? [0, 0, 1, 1];
      const lod = look.line
        ? Math.max(1, Math.floor((columns * (right - left)) / (4 * width * ratio)))
        : lodOf(rows, columns, look.window, width, height, ratio);
      least = Math.min(least, lod);
    });
    return Number.isFinite(least) ? least : 1;
  }

  // --- painting ---

  paint(frame) {
    for (const panel of this.panels) panel.paint(frame);
  }

  /** See a frame; whether the bars have to show more than they do. */
  see(frame) {
    const more = this.#player.scales.see(frame, this.#player.scene.panels);
    const bad = !this.#bars.bad && (frame.stats?.some((stats) => stats.bad > 0) ?? false);
    this.#bars.bad ||= bad;
    return more || bad;
  }

  describe(frame) {
    for (const panel of this.panels) panel.describe(frame);
  }

  drawPins() {
    for (const panel of this.panels) panel.drawPins();
  }

  note(text) {
    for (const panel of this.panels) panel.note(text);
  }

  /** What lies over the panels. */
  paintTools() {
    const { look, telemetry } = this.#player;
    show(this.#unzoom, look.window !== null);
    if (telemetry.shown) say(this.#monitor, telemetryWords(this.#player));
    show(this.#monitor, telemetry.shown);
  }

  /** End what pointers are doing; whether any did something. */
  cancel() {
    return this.panels.some((panel) => panel.cancel());
  }
}
