import { BUSY_MS, GONE_MS } from "./order.js";

// --- Pure parts: numbers and words ---------------------------------------------------------------

/** A number with `digits` significant digits at most and a real minus sign. */
export function format(value, digits = 6) {
  if (value === null || value === undefined || Number.isNaN(value)) return "no data";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  let text;
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) {
    text = value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  } else {
    text = value.toPrecision(digits);
    if (text.includes("e")) text = String(Number(text));
    else if (text.includes(".")) text = text.replace(/\.?0+$/, "");
  }
  return text.replace(/-/g, "−");
}

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

/** What a screen reader says at the slider. */
export function spoken(index, n, label) {
  return `step ${index + 1} of ${n}` + (label ? `, ${label}` : "");
}

/** The unit in "temperature [K]". */
export function unitOf(label) {
  return /\[([^\]]*)\]\s*$/.exec(label ?? "")?.[1] ?? "";
}

/** A share as a percentage: "0", "<0.1 %", "12 %". */
export function percent(share) {
  if (share === 0) return "0 %";
  if (share < 0.001) return "<0.1 %";
  return share < 0.1 ? `${(share * 100).toFixed(1)} %` : `${Math.round(share * 100)} %`;
}

const SPEEDS = [1, 2, 3, 5, 8, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 90, 120];

/** The next faster (`by` 1) or slower (-1) speed. */
export function speedOf(fps, by) {
  if (by > 0) return SPEEDS.find((speed) => speed > fps) ?? SPEEDS.at(-1);
  return SPEEDS.findLast((speed) => speed < fps) ?? SPEEDS[0];
}

const KEYS = {
  " ": "play",
  Home: "first",
  End: "last",
  "+": "faster",
  "=": "faster",
  "-": "slower",
  l: "loop",
  r: "reverse",
  m: "mode",
  "[": "in",
  "]": "out",
  i: "in",
  o: "out",
  x: "all",
  c: "colour",
  n: "norm",
  a: "auto",
  f: "full",
  s: "save",
  t: "telemetry",
  0: "unzoom",
  "?": "help",
  Escape: "leave",
};

/**
 * Whether the kernel is "busy" or "gone", or "" while all is well. `kernel` is what the host
 * tells of it: undefined where it tells nothing, null where there is none.
 */
export function kernelState(kernel, waiting) {
  if (kernel === null || kernel?.isDisposed || kernel?.connectionStatus === "disconnected") return "gone";
  if (["dead", "terminating", "restarting", "autorestarting"].includes(kernel?.status)) return "gone";
  if (kernel?.status === "idle" && waiting > GONE_MS) return "gone";
  return waiting > BUSY_MS ? "busy" : "";
}

/** What a key press means, or null: with Ctrl, Alt or Meta it is somebody else's. */
export function commandOf({ key, shiftKey, ctrlKey, altKey, metaKey }) {
  if (altKey && !metaKey && (key === "[" || key === "]")) return KEYS[key]; // as many keyboards have them
  if (ctrlKey || altKey || metaKey) return null;
  if (key === "ArrowLeft") return shiftKey ? "back10" : "back";
  if (key === "ArrowRight") return shiftKey ? "forward10" : "forward";
  const lower = key.length === 1 ? key.toLowerCase() : key;
  return Object.hasOwn(KEYS, lower) ? KEYS[lower] : null;
}

