// Sliders of the other dimensions.

import { attribute, element, say } from "./dom.js";

export class Sliders {
  #player;
  #sliders;

  constructor(player) {
    this.#player = player;
    this.#sliders = (player.scene.sliders ?? []).map((slider, k) => this.#build(slider, k));
    this.node = element("div", { class: "br-sliders" }, ...this.#sliders.map(({ row }) => row));
  }

  #build(slider, k) {
    const name = slider.label || slider.dim;
    const input = element("input", {
      type: "range", class: "br-range", min: "0", max: String(slider.size - 1), step: "1",
      "aria-label": name, "data-dim": slider.dim,
    });
    input.addEventListener("input", () => this.#player.setPosition(k, Number(input.value)));
    const value = element("span", { class: "br-slider-value" });
    const row = element("div", { class: "br-slider" }, element("span", { class: "br-slider-name" }, name), input, value);
    return { slider, name, input, value, row };
  }

  paint() {
    this.#sliders.forEach(({ slider, name, input, value }, k) => {
      const position = this.#player.positions[k] ?? 0;
      if (input.value !== String(position)) input.value = String(position);
      const text = slider.values?.[position] ?? String(position);
      say(value, text);
      attribute(input, "aria-valuetext", `${name}: ${text}`);
    });
  }
}
