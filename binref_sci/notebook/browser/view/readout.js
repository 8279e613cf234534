// Values in words, below the panels.

import { format, percent, pointWords, unitOf, withUnit } from "../pure/words.js";
import { element, say } from "./dom.js";

/** The value under the pointer, and how much of the picture lies outside the limits. */
export class Readout {
  #player;
  #value = element("span", { class: "br-value" });
  #facts = element("span", { class: "br-clipped" });
  #pointer = null; // {panel, fx, fy}, and what was asked for it

  constructor(player) {
    this.#player = player;
    this.node = element("div", { class: "br-readout" }, this.#value, this.#facts);
  }

  /** The pointer is at a point of a panel; null: it has left. */
  hover(panel, point) {
    if (point === null) {
      this.#pointer = null;
      say(this.#value, "");
      return;
    }
    this.#pointer = { ...point, panel };
    this.answer();
  }

  /** Say the value under the pointer in the frame that is shown, or ask for it. */
  answer() {
    const pointer = this.#pointer;
    const { frames, look, playhead, questions, scales, scene, screen } = this.#player;
    const frame = screen.shown;
    if (!pointer || !frame) return;
    const { panel, fx, fy } = pointer;
    const { x, y, rows, columns, colour } = scene.panels[panel];
    const unit = unitOf(scales.told[colour]?.label);
    const plain = !playhead.playing && !look.line && !x.ticks && !y.ticks;
    const value = plain ? frames.valueAt(playhead.index, panel, fx, fy) : undefined;
    if (value !== undefined) {
      say(this.#value, `${pointWords({ x, y, rows, columns }, fx, fy)}   ${withUnit(format(value), unit)}`);
      pointer.asked = `${frame.i}`;
      return;
    }
    const key = `${frame.i}/${fx}/${fy}/${panel}/${frames.ver}`;
    if (pointer.asked === key) return;
    const answered = (answer) => {
      const at = this.#pointer; // it may have moved meanwhile
      if (at?.panel !== panel) return;
      const number = answer.value === null ? "no data" : withUnit(format(answer.value), unit);
      say(this.#value, `${answer.text ?? ""}   ${answer.about ? "≈ " : ""}${number}`);
      if (at.fx !== fx || at.fy !== fy) this.answer();
    };
    if (questions.ask(panel, fx, fy, frame.i, answered)) pointer.asked = key;
  }

  /** Say what is known of a frame. */
  describe({ lod, shapes, stats = [] }) {
    const sum = (count) => stats.reduce((all, one, k) => all + count(one, k), 0);
    const cells = sum((_, k) => shapes[k][0] * shapes[k][1]);
    const outside = sum(({ under, over }) => (under ?? 0) + (over ?? 0));
    const bad = sum((one) => one.bad ?? 0);
    const words = [];
    const [only] = stats;
    if (stats.length === 1 && only.lo !== null) {
      words.push(`${lod > 1 ? "≈ " : ""}${format(only.lo, 4)} to ${format(only.hi, 4)}`);
    }
    if (outside > 0) words.push(`${percent(outside / cells)} outside the limits`);
    if (bad > 0) words.push(`${percent(bad / cells)} no data`);
    say(this.#facts, words.join(" · "));
  }
}
