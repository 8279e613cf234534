// Ticks of axes.

import { format } from "./words.js";

/** Ticks at round numbers: [[fraction of lo..hi, label], ...] in the order of lo..hi. */
export function ticksOf(lo, hi, count) {
  if (!Number.isFinite(lo) || !Number.isFinite(hi) || lo === hi) return [];
  const [low, high] = lo < hi ? [lo, hi] : [hi, lo];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const large = Math.max(Math.abs(low), Math.abs(high));
  const scientific = large >= 1e6 || decimals > 6;
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
    const value = k * step;
    const digits = Math.max(1, Math.round(Math.log10(large / step)) + 2);
    const label = scientific
      ? format(value, Math.min(15, digits))
      : value.toFixed(decimals).replace("-", "−");
    ticks.push([(value - lo) / (hi - lo) + 0, k === 0 ? (0).toFixed(scientific ? 0 : decimals) : label]);
  }
  return lo < hi ? ticks : ticks.reverse();
}

/** Ticks of an axis inside the window from..to (fractions along the axis): [[0..1, label], ...]. */
export function axisTicks(axis, from, to, count) {
  if (axis.ticks) {
    return axis.ticks
      .map(([at, label]) => [(at - from) / (to - from), label])
      .filter(([at]) => at >= -1e-9 && at <= 1 + 1e-9);
  }
  const span = axis.hi - axis.lo;
  return ticksOf(axis.lo + from * span, axis.lo + to * span, count);
}

/** Leave out labels that would touch: ticks in order, `size(label)` pixels each, over `length`. */
export function sparse(ticks, length, size, gap = 8) {
  const kept = [];
  let free = -Infinity;
  for (const [at, label] of [...ticks].sort((a, b) => a[0] - b[0])) {
    const half = size(label) / 2;
    if (at * length - half < free) continue;
    kept.push([at, label]);
    free = at * length + half + gap;
  }
  return kept;
}
