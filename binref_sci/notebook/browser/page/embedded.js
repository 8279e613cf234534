// Frames that lie in an exported page.

import { fromBase64 } from "../pure/bytes.js";

/** Frames that lie in the page, as base64 of (deflated) bytes. */
export class EmbeddedFrames {
  #recent = null; // the frame read last, for values

  constructor(data) {
    this.data = data;
  }

  coords() {
    return (this.data.coords ?? []).map((text) => (text ? fromBase64(text) : null));
  }

  async buffers(i) {
    if (this.#recent?.i === i) return this.#recent.buffers;
    const { items, frames, fmt, codec } = this.data;
    if (!items[i]) throw new Error(`step ${i} is not in this file`);
    const bytes = await inflated(fromBase64(frames[i]), codec);
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
    if (type === "times" && this.data.times) model.deliver({ type, from }, [fromBase64(this.data.times).slice(8 * from)]);
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

async function inflated(bytes, codec) {
  if (codec !== "deflate") return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
