// Numbers and facts as people read or hear them.

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

/** A share as a percentage: "0", "<0.1 %", "12 %". */
export function percent(share) {
  if (share === 0) return "0 %";
  if (share < 0.001) return "<0.1 %";
  return share < 0.1 ? `${(share * 100).toFixed(1)} %` : `${Math.round(share * 100)} %`;
}

/** The unit in "temperature [K]". */
export function unitOf(label) {
  return /\[([^\]]*)\]\s*$/.exec(label ?? "")?.[1] ?? "";
}

export function withUnit(text, unit) {
  return unit && text !== "no data" ? `${text} ${unit}` : text;
}

/** A rate in units of time a second, in words: dates and seconds as minutes, hours, days. */
export function simulated(rate, unit) {
  if (!Number.isFinite(rate) || rate <= 0) return "";
  if (unit !== "s" || rate < 120) return `${format(rate, 3)} ${unit}/s`;
  const [size, name] = [[31557600, "a"], [86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => rate >= 2 * size);
  return `${format(rate / size, 3)} ${name}/s`;
}

/** What a screen reader says at the slider. */
export function spoken(index, n, label) {
  return `step ${index + 1} of ${n}` + (label ? `, ${label}` : "");
}

export function barLabel({ label = "", vmin, vmax }) {
  return `Colour bar: ${label} from ${format(vmin)} to ${format(vmax)}`;
}

/** Where a point lies, at the middle of its cell. */
export function pointWords({ x, y, rows, columns }, fx, fy) {
  const column = Math.floor(fx * columns);
  const row = Math.floor(fy * rows);
  const xValue = x.lo + ((column + 0.5) / columns) * (x.hi - x.lo);
  const yValue = y.hi - ((row + 0.5) / rows) * (y.hi - y.lo);
  const one = (axis, value) => `${axis.name} = ${withUnit(format(value, 5), unitOf(axis.label))}`;
  return `${one(x, xValue)}, ${one(y, yValue)}`;
}
