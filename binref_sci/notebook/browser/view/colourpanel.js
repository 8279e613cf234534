// Colours, norm and limits of one colour scale.

import { CMAPS, NORMS } from "../model/scales.js";
import { button, element, pick, press, say, select, show } from "./dom.js";

const REDUCTIONS = { mean: "mean", max: "largest", min: "smallest", absmax: "farthest from 0" };
const RULES = {
  sampled: "≈ from a sample",
  full: "from all frames",
  frame: "from one frame",
  attribute: "as the data says",
  given: "as given",
};

/** A panel that is hidden at first. */
export class ColourPanel {
  #player;
  #scale = 0;
  #cmap;
  #inverted;
  #norm;
  #low;
  #high;
  #rule = element("span", { class: "br-rule" });
  #reduce;

  constructor(player) {
    this.#player = player;
    this.#low = this.#number("Lower limit");
    this.#high = this.#number("Upper limit");
    const colours = [this.#buildWhich(), ...this.#buildColours()];
    const several = this.#buildReduction();
    if (player.look.line) for (const one of [this.#cmap, this.#inverted, this.#norm, several]) show(one, false);
    this.node = element(
      "div",
      { class: "br-colours", role: "group", "aria-label": "Colours and limits", hidden: true },
      element("div", { class: "br-group" }, ...colours),
      element("div", { class: "br-group" }, this.#low, element("span", {}, "to"), this.#high, this.#rule),
      this.#buildRules(),
      several,
    );
  }

  #buildWhich() {
    const { scales, scene } = this.#player;
    const names = [...new Set(scene.panels.map(({ colour: k }) => k))].map((k) => [String(k), scales.told[k]?.label ?? ""]);
    const which = select("which", "Colour scale", names, (k) => {
      this.#scale = Number(k);
      this.paint();
    });
    show(which, names.length > 1);
    return which;
  }

  #buildColours() {
    const { scales } = this.#player;
    this.#cmap = select("cmap", "Colormap", CMAPS.map((name) => [name, name]), (cmap) => scales.colour(cmap));
    const invert = () => {
      const { value } = this.#cmap;
      scales.colour(value.endsWith("_r") ? value.slice(0, -2) : `${value}_r`);
    };
    this.#inverted = button("invert", "Invert the colours", invert, { text: "invert", toggle: true });
    this.#norm = select("norm", "Norm", NORMS.map((name) => [name, name]), (kind) => scales.norm(kind));
    return [this.#cmap, this.#inverted, this.#norm];
  }

  #buildReduction() {
    const choices = Object.entries(REDUCTIONS);
    this.#reduce = select("reduce", "Cells of one pixel", choices, (how) => this.#player.setReduction(how));
    return element("label", { class: "br-several" }, "several cells a pixel: ", this.#reduce);
  }

  #buildRules() {
    const rule = (how, text) => button(how, `Limits of ${text}`, () => this.#limits(how), { text });
    const rules = [rule("sampled", "a sample"), rule("frame", "this frame"), rule("full", "all frames")];
    return element("div", { class: "br-group" }, "limits from:", ...rules);
  }

  #number(label) {
    const input = element("input", { type: "number", step: "any", class: "br-number", "aria-label": label });
    input.addEventListener("change", () => this.#give());
    return input;
  }

  #limits(how, given = {}) {
    const { playhead, scales } = this.#player;
    scales.limits(how, playhead.index, { colour: this.#scale, ...given });
  }

  #give() {
    const [lo, hi] = [this.#low, this.#high].map((input) => input.valueAsNumber);
    if (Number.isFinite(lo) && Number.isFinite(hi) && lo <= hi) this.#limits("given", { lo, hi });
  }

  paint() {
    if (this.node.hidden) return;
    const { look, scales } = this.#player;
    const { cmap, norm, vmin, vmax, rule } = scales.told[this.#scale] ?? {};
    pick(this.#cmap, cmap);
    pick(this.#norm, norm);
    pick(this.#reduce, look.reduce);
    press(this.#inverted, cmap?.endsWith("_r") ?? false);
    const active = this.node.getRootNode().activeElement;
    for (const [input, value] of [[this.#low, vmin], [this.#high, vmax]]) {
      if (input !== active && input.valueAsNumber !== value) input.value = String(value);
    }
    say(this.#rule, RULES[rule] ?? "");
  }
}
