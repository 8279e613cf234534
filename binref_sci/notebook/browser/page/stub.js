// A model that answers the protocol of the kernel from frames that it has.

/**
 * A widget model as anywidget hands it over, with the kernel's side behind it.
 *
 * `source.frame(i, view, fmt)` gives {item, buffers} or throws; `value`, `series` and `message`
 * are optional. `latency` (milliseconds) and `busy` make a slow kernel, for tests.
 */
export class StubModel {
  #traits;
  #source;
  #listeners = new Map();
  #want = null;
  #sent = new Map(); // what is in flight: "ver/view/fmt/i" -> seq
  #refused = new Set(); // frames of this want that cannot be had
  #seq = 0;
  #working = false;

  constructor(traits, source, { latency = 0 } = {}) {
    this.#traits = { ...traits };
    this.#source = source;
    this.latency = latency;
    this.busy = false;
    this.sent = []; // messages of the player, newest last
  }

  get(name) {
    return this.#traits[name];
  }

  set(name, value) {
    if (this.#traits[name] === value) return;
    this.#traits[name] = value;
    this.#emit(`change:${name}`);
  }

  save_changes() {}

  on(name, listener) {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]);
  }

  off(name, listener) {
    const left = (this.#listeners.get(name) ?? []).filter((other) => other !== listener);
    this.#listeners.set(name, listener ? left : []);
  }

  #emit(name, ...values) {
    for (const listener of this.#listeners.get(name) ?? []) listener(...values);
  }

  /** As the kernel would send it. */
  deliver(content, buffers = []) {
    this.#emit("msg:custom", content, buffers.map(viewOf));
  }

  send(content) {
    this.sent.push(content);
    if (this.sent.length > 2000) this.sent.splice(0, 1000);
    setTimeout(() => this.#receive(content), this.latency / 2);
  }

  #receive(content) {
    const { type } = content;
    if (type === "ready") this.#greet();
    else if (type === "want") {
      this.#want = content;
      this.#refused.clear();
      for (const [key, seq] of this.#sent) if (seq <= content.seen) this.#sent.delete(key);
      this.#work();
    } else if (type === "value") this.#answerValue(content);
    else if (type === "pin") this.#source.series?.(content, this);
    else this.#source.message?.(content, this);
  }

  #greet() {
    const probe = new Uint8Array(16).map((_, k) => k);
    this.#later({ type: "probe" }, [probe]);
    this.#source.coords?.().forEach((coords, panel) => {
      if (coords) this.#later({ type: "coords", panel }, [coords]);
    });
  }

  #later(content, buffers) {
    setTimeout(() => this.deliver(content, buffers), this.latency / 2);
  }

  async #answerValue({ id, i, panel, fx, fy }) {
    const answer = (await this.#source.value?.(i, panel, fx, fy)) ?? { value: null, text: "" };
    this.#later({ type: "value", id, i, ...answer }, []);
  }

  /** Serve the newest want-list, in its order, within its credit. */
  async #work() {
    if (this.#working) return;
    this.#working = true;
    try {
      for (;;) {
        while (this.busy) await pause(20);
        const want = this.#want;
        const i = want?.idx.find((wanted) => !this.#refused.has(wanted) && !this.#sent.has(keyOf(want, wanted)));
        if (i === undefined || this.#sent.size >= want.credit) return;
        const seq = ++this.#seq;
        this.#sent.set(keyOf(want, i), seq);
        await this.#serve(want, i, seq);
      }
    } finally {
      this.#working = false;
    }
  }

  async #serve(want, i, seq) {
    const { gen, ver, view, fmt } = want;
    try {
      const { item, buffers } = await this.#source.frame(i, view, fmt);
      const items = [{ ms: { read: 0, enc: 0 }, ...item, seq, i, ver, view: view.id, fmt }];
      this.#later({ type: "frames", gen, items }, buffers);
    } catch (error) {
      this.#sent.delete(keyOf(want, i)); // nothing of it is in flight
      this.#refused.add(i);
      this.#later({ type: "error", i, text: error.message }, []);
    }
  }
}

function keyOf({ ver, view, fmt }, i) {
  return `${ver}/${view.id}/${fmt}/${i}`;
}

/** As a message brings it. */
export function viewOf(buffer) {
  return new DataView(buffer.buffer ?? buffer, buffer.byteOffset ?? 0, buffer.byteLength);
}

function pause(ms) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
