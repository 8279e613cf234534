// What goes between this page and Python.

import { now } from "../pure/clock.js";

const REPORT_MS = 250; // after a move the position is told to Python
const PLAY_REPORT_MS = 500; // how often it is told while playing

/** Traits and messages of one widget model. A change that was made here is not heard. */
export class Channel {
  #model;
  #refused;
  #telling = false;

  /** `refused` is called where the host does not take a message. */
  constructor(model, refused) {
    this.#model = model;
    this.#refused = refused;
  }

  get(name, otherwise) {
    return this.#model.get(name) ?? otherwise;
  }

  /** Traits that Python (or a link) changes. */
  on(name, change) {
    this.#model.on(`change:${name}`, () => {
      if (!this.#telling) change(this.#model.get(name));
    });
  }

  onMessage(receive) {
    this.#model.on("msg:custom", receive);
  }

  /** The host has lost a kernel, or found one. */
  onKernel(changed) {
    this.#model.on("comm_live_update", changed);
  }

  /** What the host tells of the kernel: undefined where it tells nothing, null where there is none. */
  get kernel() {
    return this.#model.widget_manager?.kernel;
  }

  /** Send to the kernel. A host whose kernel has gone may refuse, which ends nothing here. */
  post(content) {
    try {
      this.#model.send(content);
    } catch {
      this.#refused();
    }
  }

  /** Set traits; the change event of our own set is not a seek. */
  tell(traits) {
    this.#telling = true;
    try {
      for (const [name, value] of Object.entries(traits)) this.#model.set(name, value);
    } finally {
      this.#telling = false;
    }
    this.#model.save_changes();
  }
}

/** Tells Python where the playhead is; `position` gives it. */
export class Report {
  #channel;
  #position;
  #told = null;
  #at = 0;
  #later = null;

  constructor(channel, position) {
    this.#channel = channel;
    this.#position = position;
  }

  /** After a move, but not at once: the frame comes first. */
  soon() {
    this.#later ??= setTimeout(() => {
      this.#later = null;
      this.#now();
    }, REPORT_MS);
  }

  whilePlaying() {
    if (now() - this.#at >= PLAY_REPORT_MS) this.#now();
  }

  /** Python has come to know `index` with something else. */
  told(index) {
    this.#told = index;
  }

  #now() {
    const index = this.#position();
    if (this.#told === index) return;
    this.#told = index;
    this.#at = now();
    this.#channel.tell({ index });
  }

  dispose() {
    clearTimeout(this.#later);
  }
}
