// Colours by tables.

import { bytesOf } from "./bytes.js";

/** The tables of `luts` as 256 RGBA pixels each. */
export function tables(luts) {
  const bytes = luts ? bytesOf(luts) : new Uint8Array(0);
  const all = [];
  for (let first = 0; first + 1024 <= bytes.length; first += 1024) {
    all.push(new Uint32Array(bytes.slice(first, first + 1024).buffer));
  }
  return all;
}

/** Codes through a table into pixels. */
export function colour(codes, table, pixels) {
  const count = Math.min(codes.length, pixels.length);
  for (let k = 0; k < count; k += 1) pixels[k] = table[codes[k]];
}
