// Colour scales.

import { tables } from "../pure/colours.js";

export const CMAPS = ["viridis", "magma", "cividis", "turbo", "RdBu_r", "gray"];
export const NORMS = ["linear", "log", "symlog"];

/** The colour scales as Python tells them, their tables, and what was seen beyond their limits. */
export class Scales {
  #channel;
  #beyond = []; // by scale: whether a frame had values under or over the limits

  constructor(channel) {
    this.#channel = channel;
    this.told = channel.get("colours", []);
    this.setTables(channel.get("luts", null));
  }

  setTables(luts) {
    this.tables = tables(luts);
  }

  /** Other limits: nothing has been seen beyond them. */
  renew() {
    this.#beyond = [];
  }

  /** See a frame of these panels; whether it has values beyond a limit for the first time. */
  see({ stats }, panels) {
    let more = false;
    stats?.forEach(({ under, over }, k) => {
      const seen = (this.#beyond[panels[k]?.colour ?? 0] ??= { min: false, max: false });
      more ||= (under > 0 && !seen.min) || (over > 0 && !seen.max);
      seen.min ||= under > 0;
      seen.max ||= over > 0;
    });
    return more;
  }

  /** A scale as its bar is drawn: with arrows too for what has been seen beyond. */
  drawn(k) {
    const colours = this.told[k] ?? {};
    const seen = this.#beyond[k];
    if (!seen || colours.extend_given) return colours;
    const [min, max] = ["min", "max"].map((end) => seen[end] || colours.extend === end || colours.extend === "both");
    return { ...colours, extend: min ? (max ? "both" : "min") : max ? "max" : "neither" };
  }

  // --- what the kernel is asked to change ---

  colour(cmap) {
    this.#channel.post({ type: "colour", cmap });
  }

  norm(kind) {
    this.#channel.post({ type: "norm", kind });
  }

  /** Limits of scale `colour` by rule `how`, where it needs one from frame `i`. */
  limits(how, i, { colour = 0, ...more } = {}) {
    this.#channel.post({ type: "limits", how, colour, i, ...more });
  }

  nextColour() {
    const at = CMAPS.indexOf(this.told[0]?.cmap);
    this.colour(CMAPS[(at + 1) % CMAPS.length]);
  }

  nextNorm() {
    const at = NORMS.indexOf(this.told[0]?.norm);
    this.norm(NORMS[(at + 1) % NORMS.length]);
  }
}
