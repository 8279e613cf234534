// The slider of time, over the frames that are here.

import { coverage } from "../pure/cache.js";
import { now } from "../pure/clock.js";
import { spoken } from "../pure/words.js";
import { prepare } from "./canvas.js";
import { attribute, element, show } from "./dom.js";

const THUMB = 16; // width of the slider's thumb, as in the style sheet
const BAR_HEIGHT = 6;
const SPOKEN_MS = 500; // how often it is said where it is while playing

export class Timeline {
  #player;
  #paper;
  #bar = element("canvas", { class: "br-cached", "aria-hidden": "true" });
  #part = element("div", { class: "br-part", "aria-hidden": "true", hidden: true });
  #slider;
  #drawn = null; // what the bar shows; null: it has to be drawn anew
  #drawnAt = 0;
  #spokenAt = 0;

  constructor(player, paper) {
    this.#player = player;
    this.#paper = paper;
    const label = player.scene.dim || "step";
    this.#slider = element("input", { type: "range", class: "br-range", min: "0", step: "1", "aria-label": label });
    this.#slider.addEventListener("input", () => player.seek(Number(this.#slider.value), { scrub: true }));
    this.node = element("div", { class: "br-timeline" }, this.#bar, this.#part, this.#slider);
  }

  paintPosition(label) {
    const { index, last, n, playing } = this.#player.playhead;
    const slider = this.#slider;
    const [most, at] = [String(last), String(index)];
    if (slider.max !== most) slider.max = most;
    if (slider.value !== at) slider.value = at;
    const time = now();
    if (playing && time - this.#spokenAt <= SPOKEN_MS) return;
    this.#spokenAt = time;
    attribute(slider, "aria-valuetext", spoken(index, n, label));
  }

  /** The part that is played. */
  paintPart() {
    const { n, part } = this.#player.playhead;
    show(this.#part, part.length === 2);
    if (part.length !== 2) return;
    const [first, last] = part;
    const share = (i) => Math.min(1, Math.max(0, i / Math.max(1, n - 1)));
    this.#part.style.left = `calc(${THUMB / 2}px + (100% - ${THUMB}px) * ${share(first)})`;
    this.#part.style.right = `calc(${THUMB / 2}px + (100% - ${THUMB}px) * ${1 - share(last)})`;
  }

  relayout() {
    this.#drawn = null;
  }

  /** The frames that are here; seldom, as nobody looks at them all the time. */
  paintCached() {
    const { frames, look, playhead } = this.#player;
    const { cache, ver } = frames;
    const time = now();
    const key = `${cache.changes}/${playhead.n}/${look.lod}/${ver}`;
    const pause = this.#drawn === null ? 0 : playhead.playing ? 500 : 100;
    if (this.#drawn === key || time - this.#drawnAt < pause) return;
    this.#drawn = key;
    this.#drawnAt = time;
    const width = this.#slider.clientWidth;
    if (width <= THUMB) return;
    const context = prepare(this.#bar, width, BAR_HEIGHT, this.#paper.ratio);
    this.#drawTrack(context, width - THUMB);
    if (playhead.n === 0) return;
    this.#drawShares(context, coverage(cache.indices(look.views.play.id), playhead.n, Math.ceil(width - THUMB)));
  }

  #drawTrack(context, inner) {
    context.fillStyle = this.#paper.inks.track;
    context.beginPath();
    context.roundRect(THUMB / 2 - 3, 0, inner + 6, BAR_HEIGHT, 3);
    context.fill();
    context.clip();
  }

  /** How much of each pixel is here. */
  #drawShares(context, share) {
    context.fillStyle = this.#paper.inks.cached;
    for (let cell = 0; cell < share.length; cell += 1) {
      if (share[cell] === 0) continue;
      context.globalAlpha = 0.35 + 0.65 * Math.min(1, share[cell]);
      const edge = cell === 0 ? 3 : 0;
      context.fillRect(THUMB / 2 + cell - edge, 0, 1 + edge + (cell === share.length - 1 ? 3 : 0), BAR_HEIGHT);
    }
    context.globalAlpha = 1;
  }
}
