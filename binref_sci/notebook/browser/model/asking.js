// What to ask the kernel for next.

import { now } from "../pure/clock.js";
import { aroundRest, eachToCome, shownToCome } from "../pure/plan.js";
import { credits } from "../pure/rates.js";

const FLOATS_BYTES = 2e6; // more than that would hold up the next scrub

/** Chooses the frames, the view of them and how many may be under way. */
export class Asking {
  #playhead;
  #look;
  #frames;
  #demand;
  #rest;
  #skipping;
  #ahead;
  #values;
  #at = 0; // when something was asked for last

  /** `ahead(count)` are the frames to come; `values`: exact values can be had. */
  constructor({ playhead, look, frames, demand, rest, skipping, ahead, values }) {
    this.#playhead = playhead;
    this.#look = look;
    this.#frames = frames;
    this.#demand = demand;
    this.#rest = rest;
    this.#skipping = skipping;
    this.#ahead = ahead;
    this.#values = values;
  }

  /** Ask for what is missing, or take all back where nobody can `see` it. */
  want(seen, again) {
    this.#at = now();
    const nothing = { view: this.#look.views.play, fmt: "u8", list: [] };
    const plan = seen ? this.#plan() : nothing;
    if (plan === null && !this.#demand.open) return; // nothing to take back
    const { view, fmt, list } = plan ?? nothing;
    const credit = list.length ? this.#credit(view, fmt, list) : 0;
    this.#demand.send({ ver: this.#frames.ver, view, fmt, list, credit }, again);
  }

  /** Whether frames have come into reach, in play, that no answer will ask for. */
  get due() {
    const since = now() - this.#at;
    if (!this.#playhead.every) return since > 100;
    // frames that were asked for bring the next want with them
    return !this.#demand.waits && since > this.#patience;
  }

  /** Milliseconds in which a small part of what may be cached ahead is played. */
  get #patience() {
    return Math.min(250, (this.#capacity * 250) / Math.max(1, this.#playhead.fps));
  }

  /** What to ask for; null: nothing for now. */
  #plan() {
    const { playing, index, direction, order } = this.#playhead;
    const { line, views } = this.#look;
    const { play, rest, coarse } = views;
    const { filling, scrubbing } = this.#rest;
    const fmt = line ? "f32" : "u8";
    const missing = (view) => (i) => !this.#frames.known(view, i);
    const only = (view) => ({ view, fmt, list: [index].filter(missing(view)) });
    if (playing) return { view: play, fmt, list: this.#toCome(missing(play)) };
    if (scrubbing) {
      if (!coarse) return only(rest);
      return this.#have(index) ? null : { view: coarse, fmt, list: [index] };
    }
    if (missing(rest)(index)) {
      if (rest !== play || !filling) return only(rest);
    } else if (this.#valuesWanted) {
      return { view: rest, fmt: "f32", list: [index] };
    }
    if (!filling) return null;
    return { view: play, fmt, list: aroundRest(index, direction, order, this.#capacity, missing(play)) };
  }

  #have(i) {
    return this.#frames.failed.has(i) || this.#frames.cache.best(this.#look.kept(false), i) !== undefined;
  }

  /** The frames that playing lacks. */
  #toCome(missing) {
    const { every, fps, index, stride } = this.#playhead;
    const { trip, arrived } = this.#demand;
    if (every) return eachToCome(index, this.#ahead, this.#capacity, missing);
    const lead = Math.ceil((trip.ms * fps) / 1000);
    const shown = (i) => this.#skipping.shows(i, stride);
    const list = shownToCome(lead, this.#ahead, this.#capacity, shown, missing);
    const time = now();
    this.#skipping.adapt(time, { comfortable: list.length === 0, fps, rate: arrived.perSecond(time) });
    return list;
  }

  /** Whether exact values of the frame are, where they are the field itself and not too many. */
  get #valuesWanted() {
    const { index } = this.#playhead;
    const { line, lod, views } = this.#look;
    if (!this.#values || line || !this.#rest.looking || this.#frames.failed.has(index)) return false;
    if (lod !== 1 || this.#look.cells(1) * 4 > FLOATS_BYTES) return false;
    return !this.#frames.hasValues(index, views.rest);
  }

  #credit(view, fmt, list) {
    const { playing, every, fps, index } = this.#playhead;
    if (fmt === "f32" && !this.#look.line) return 1;
    const bytes = this.#look.bytes(view.lod);
    const credit = credits({ playing, every, rtt: this.#demand.trip.ms, fps, bytes });
    // what is looked at does not wait for what is under way
    return !playing && list[0] === index ? Math.max(2, credit) : credit;
  }

  /** Frames that are kept ahead. */
  get #capacity() {
    const { lod } = this.#look;
    return this.#frames.capacity(Math.max(1, this.#look.bytes(Math.max(1, lod))));
  }
}
