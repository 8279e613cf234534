// Bytes of messages.

/** Whether the sixteen bytes 0..15 arrived as they were sent. */
export function intact(buffers) {
  const bytes = buffers?.length === 1 ? bytesOf(buffers[0]) : null;
  return bytes !== null && bytes.length === 16 && bytes.every((byte, k) => byte === k);
}

/** Bytes of a DataView, an ArrayBuffer or a typed array, without a copy where that is sparing. */
export function bytesOf(buffer) {
  if (buffer instanceof ArrayBuffer) return new Uint8Array(buffer);
  if (!ArrayBuffer.isView(buffer)) return null;
  const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  // a small piece must not keep a big message alive
  return buffer.buffer.byteLength > 2 * bytes.length ? bytes.slice() : bytes;
}

/** The same bytes as `Type`; copied only where they are not aligned. */
export function numbersOf(Type, bytes) {
  const width = Type.BYTES_PER_ELEMENT;
  const whole = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  return new Type(whole.buffer, whole.byteOffset, Math.floor(whole.byteLength / width));
}

export function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k += 1) bytes[k] = raw.charCodeAt(k);
  return bytes;
}

/** Buffers of a message: its own, or those in its text where a host cannot carry binary. */
export function buffersOf(content, buffers) {
  if (Array.isArray(content.data)) return content.data.map(fromBase64);
  return (buffers ?? []).map(bytesOf);
}

/** Puts the parts of a frame together that came in several messages. */
export class Parts {
  #open = new Map();

  /** Buffers of the whole frame once all of it is there, else null. */
  add(item, buffers, itemsize) {
    if (!item.rows) return buffers;
    const key = `${item.ver}/${item.view}/${item.i}/${item.fmt}`;
    let open = this.#open.get(key);
    if (!open) {
      open = {
        missing: item.shapes.reduce((sum, [rows]) => sum + rows, 0),
        buffers: item.shapes.map(([rows, columns]) => new Uint8Array(rows * columns * itemsize)),
      };
      this.#open.set(key, open);
    }
    item.rows.forEach(([first, stop], panel) => {
      open.buffers[panel].set(buffers[panel], first * item.shapes[panel][1] * itemsize);
      open.missing -= stop - first;
    });
    if (open.missing > 0) return null;
    this.#open.delete(key);
    return open.buffers;
  }

  clear() {
    this.#open.clear();
  }
}
