// The part of the picture that is looked at, and how closely.

export const WHOLE = [0, 0, 1, 1]; // left, top, right, bottom inside; [l, r, t, b] on the wire

/** Cells that fall onto one pixel, at least one. */
export function lodOf(rows, columns, window, width, height, ratio) {
  const [left, top, right, bottom] = window ?? WHOLE;
  const across = (columns * (right - left)) / Math.max(1, width * ratio);
  const down = (rows * (bottom - top)) / Math.max(1, height * ratio);
  return Math.max(1, Math.floor(Math.min(across, down)));
}

/** `window` enlarged or shrunk by `factor` about a point of it (fractions 0..1); null: whole. */
export function zoomed(window, fx, fy, factor, least = 1e-4) {
  const [left, top, right, bottom] = window ?? WHOLE;
  const width = Math.min(1, Math.max(least, (right - left) * factor));
  const height = Math.min(1, Math.max(least, (bottom - top) * factor));
  const x = left + fx * (right - left) - fx * width;
  const y = top + fy * (bottom - top) - fy * height;
  return inside([x, y, x + width, y + height]);
}

/** The window moved back inside the picture; null for the whole. */
export function inside([left, top, right, bottom]) {
  const width = right - left;
  const height = bottom - top;
  if (width >= 1 && height >= 1) return null;
  const x = Math.min(Math.max(left, 0), 1 - width);
  const y = Math.min(Math.max(top, 0), 1 - height);
  return [x, y, x + width, y + height];
}
