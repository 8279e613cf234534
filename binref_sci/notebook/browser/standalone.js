// The player without a kernel: a model that answers the protocol from frames it holds itself.
//
// The exported page joins this text to that of player.js in one module script and calls
// `start(widget, document)`; tests give `StubModel` a source of their own. No name here may be
// one of player.js.

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

function viewOf(buffer) {
  return new DataView(buffer.buffer ?? buffer, buffer.byteOffset ?? 0, buffer.byteLength);
}

function pause(ms) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

function decoded(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k += 1) bytes[k] = raw.charCodeAt(k);
  return bytes;
}

async function inflated(bytes, codec) {
  if (codec !== "deflate") return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Frames that lie in the page, as base64 of (deflated) bytes. */
export class EmbeddedFrames {
  #recent = null; // the frame read last, for values

  constructor(data) {
    this.data = data;
  }

  coords() {
    return (this.data.coords ?? []).map((text) => (text ? decoded(text) : null));
  }

  async buffers(i) {
    if (this.#recent?.i === i) return this.#recent.buffers;
    const { items, frames, fmt, codec } = this.data;
    if (!items[i]) throw new Error(`step ${i} is not in this file`);
    const bytes = await inflated(decoded(frames[i]), codec);
    const width = fmt === "f32" ? 4 : 1;
    let first = 0;
    const buffers = items[i].shapes.map(([rows, columns]) => {
      const size = rows * columns * width;
      first += size;
      return bytes.slice(first - size, first);
    });
    this.#recent = { i, buffers };
    return buffers;
  }

  /** Times of the frames, for players that keep in step with them. */
  message({ type, from }, model) {
    if (type === "times" && this.data.times) model.deliver({ type, from }, [decoded(this.data.times).slice(8 * from)]);
  }

  /** What is embedded, however closely the player wants to look. */
  async frame(i) {
    return { item: this.data.items[i], buffers: await this.buffers(i) };
  }

  /** The middle of the code's interval: about the value. */
  async value(i, panel, fx, fy) {
    const { items, values, fmt, traits } = this.data;
    const scene = traits.scene.panels[panel];
    const text = placeOf(scene, fx, fy);
    const [rows, columns] = items[i].shapes[panel];
    const levels = values?.[scene.colour];
    if (fmt !== "u8" || !levels) return { value: null, text };
    const [codes] = (await this.buffers(i)).slice(panel, panel + 1);
    const code = codes[Math.floor(fy * rows) * columns + Math.floor(fx * columns)];
    return { value: levels[code], text, about: true };
  }
}

function placeOf({ x, y }, fx, fy) {
  const short = (value) => Number(value.toPrecision(5));
  if (x.ticks || y.ticks) return "";
  return `${x.name} = ${short(x.lo + fx * (x.hi - x.lo))}, ${y.name} = ${short(y.hi - fy * (y.hi - y.lo))}`;
}

/** Build the player of an exported page; gives its model. */
export async function start(widget, page) {
  const data = JSON.parse(page.getElementById("binref-data").textContent);
  const { luts, options, ...traits } = data.traits;
  const model = new StubModel(
    {
      ver: 0,
      playing: false,
      pinned: [],
      live: {},
      status: {},
      positions: [],
      ...traits,
      luts: viewOf(decoded(luts)),
      options: { ...options, fixed: ["colours", "live", "values", "series"] },
    },
    new EmbeddedFrames(data),
  );
  const player = await widget();
  const el = page.getElementById("binref-player");
  await player.initialize({ model });
  await player.render({ model, el });
  return model;
}
