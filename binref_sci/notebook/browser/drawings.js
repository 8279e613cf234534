import { ticksOf } from "./words.js";

// --- DOM: drawings -------------------------------------------------------------------------------

export const TICK = 4;
export const SMALL = 11;
export const MOST_NAMED = 8; // curves in a legend: as many as there are colours
export const MEDIUM = 12;

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

/** Frame, ticks and labels around `box` = {x, y, width, height}. */
export function drawAxes(context, box, { x, y, title, showX, showY, xTicks, yTicks, inks: ink }) {
  const { font } = ink;
  context.strokeStyle = ink.line;
  context.lineWidth = 1;
  context.strokeRect(box.x - 0.5, box.y - 0.5, box.width + 1, box.height + 1);
  context.font = `${SMALL}px ${font}`;
  context.fillStyle = ink.muted;
  context.textBaseline = "top";
  context.textAlign = "center";
  context.beginPath();
  const below = box.y + box.height;
  const measured = sparse(xTicks, box.width, (label) => context.measureText(label).width);
  for (const [at] of xTicks) {
    const across = Math.round(box.x + at * box.width) + (at === 1 ? 0.5 : -0.5);
    context.moveTo(across, below + 1);
    context.lineTo(across, below + 1 + TICK);
  }
  for (const [at] of yTicks) {
    const down = Math.round(box.y + (1 - at) * box.height) + (at === 0 ? 0.5 : -0.5);
    context.moveTo(box.x - 1, down);
    context.lineTo(box.x - 1 - TICK, down);
  }
  context.stroke();
  if (showX) {
    for (const [at, label] of measured) context.fillText(label, box.x + at * box.width, below + TICK + 4);
  }
  if (showY) {
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [at, label] of sparse(yTicks, box.height, () => SMALL, 4)) {
      context.fillText(label, box.x - TICK - 4, box.y + (1 - at) * box.height);
    }
  }
  context.fillStyle = ink.text;
  context.font = `${MEDIUM}px ${font}`;
  context.textAlign = "center";
  if (showX && x) {
    context.textBaseline = "top";
    fitText(context, x, box.x + box.width / 2, below + TICK + 6 + SMALL + 3, box.width);
  }
  if (showY && y) {
    context.save();
    context.translate(MEDIUM / 2 + 2, box.y + box.height / 2);
    context.rotate(-Math.PI / 2);
    context.textBaseline = "middle";
    fitText(context, y, 0, 0, box.height);
    context.restore();
  }
  if (title) {
    context.textBaseline = "alphabetic";
    fitText(context, title, box.x + box.width / 2, box.y - 7, box.width);
  }
}

/** Text shortened in its middle to fit. */
function fitText(context, text, x, y, width) {
  let shown = text;
  let keep = text.length;
  while (context.measureText(shown).width > width && keep > 6) {
    keep -= 1;
    shown = `${text.slice(0, Math.ceil(keep / 2))}…${text.slice(text.length - Math.floor(keep / 2))}`;
  }
  context.fillText(shown, x, y);
}

/** The colour bar into `box`: its colours, a triangle for what lies outside, its ticks. */
export function drawBar(context, box, { colours, table, vertical, bad, inks: ink }) {
  const { x, y, width, height } = box;
  const length = vertical ? height : width;
  const thick = vertical ? width : height;
  const above = colours.extend === "max" || colours.extend === "both";
  const below = colours.extend === "min" || colours.extend === "both";
  const tip = Math.round(thick * 0.8);
  const first = below ? tip : 0;
  const inner = length - first - (above ? tip : 0);
  // along: from the low end; a point of the bar at (along, across)
  const point = vertical
    ? (along, across) => [x + across, y + height - along]
    : (along, across) => [x + along, y + across];
  const css = (code) => {
    const pixel = table[code];
    return `rgba(${pixel & 255},${(pixel >> 8) & 255},${(pixel >> 16) & 255},${(pixel >>> 24) / 255})`;
  };
  const shape = (...points) => {
    context.beginPath();
    points.forEach(([along, across], k) => context[k ? "lineTo" : "moveTo"](...point(along, across)));
    context.closePath();
  };
  for (let code = 2; code <= 254; code += 1) {
    const from = first + ((code - 2) * inner) / 253;
    const to = Math.min(first + inner, first + ((code - 1) * inner) / 253 + 1.5); // no seams
    context.fillStyle = css(code);
    shape([from, 0], [to, 0], [to, thick], [from, thick]);
    context.fill();
  }
  if (below) {
    context.fillStyle = css(1);
    shape([0, thick / 2], [tip, 0], [tip, thick]);
    context.fill();
  }
  if (above) {
    context.fillStyle = css(255);
    shape([length, thick / 2], [length - tip, 0], [length - tip, thick]);
    context.fill();
  }
  context.strokeStyle = ink.line;
  context.lineWidth = 1;
  let widest = 0;
  const outline = [[first, 0]];
  if (below) outline.push([0, thick / 2]);
  outline.push([first, thick], [first + inner, thick]);
  if (above) outline.push([length, thick / 2]);
  outline.push([first + inner, 0]);
  shape(...outline);
  context.stroke();

  context.font = `${SMALL}px ${ink.font}`;
  context.fillStyle = ink.muted;
  const size = (label) => (vertical ? SMALL + 2 : context.measureText(label).width);
  for (const [at, label] of sparse(colours.ticks ?? [], inner, size, 4)) {
    const [tx, ty] = point(first + at * inner, thick);
    widest = Math.max(widest, context.measureText(label).width);
    context.beginPath();
    context.moveTo(tx, ty);
    context.lineTo(...(vertical ? [tx + TICK, ty] : [tx, ty + TICK]));
    context.stroke();
    context.textAlign = vertical ? "left" : "center";
    context.textBaseline = vertical ? "middle" : "top";
    const half = context.measureText(label).width / 2;
    const right = context.canvas.width / context.getTransform().a;
    const across = vertical ? tx + TICK + 3 : Math.min(Math.max(tx, half), right - half); // not cut off
    context.fillText(label, across, ty + (vertical ? 0 : TICK + 3));
  }
  context.fillStyle = ink.text;
  context.font = `${MEDIUM}px ${ink.font}`;
  const label = `${colours.about ? "≈ " : ""}${colours.label ?? ""}`;
  context.textAlign = "center";
  if (vertical) {
    context.save();
    context.translate(x + width + TICK + 3 + widest + MEDIUM, y + height / 2);
    context.rotate(Math.PI / 2);
    context.textBaseline = "middle";
    fitText(context, label, 0, 0, height);
    context.restore();
  } else {
    context.textBaseline = "top";
    fitText(context, label, x + width / 2, y + height + TICK + SMALL + 6, width);
  }
  if (bad && vertical) {
    context.fillStyle = css(0);
    context.fillRect(x, y + height + 10, width, 10);
    context.strokeRect(x + 0.5, y + height + 10.5, width - 1, 9);
    context.font = `${SMALL}px ${ink.font}`;
    context.fillStyle = ink.muted;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText("no data", x + width + TICK + 3, y + height + 15.5);
  }
}

/** One curve: `xs(k)`, `ys(k)` in pixels; NaN lifts the pen. Dense curves keep their envelope. */
export function drawCurve(context, count, xs, ys, width) {
  context.beginPath();
  let down = false;
  if (count > 4 * width) {
    const bin = count / width;
    for (let pixel = 0; pixel < width; pixel += 1) {
      let low = Infinity;
      let high = -Infinity;
      const stop = Math.floor((pixel + 1) * bin);
      for (let k = Math.floor(pixel * bin); k < stop; k += 1) {
        const value = ys(k);
        if (value < low) low = value;
        if (value > high) high = value;
      }
      if (low > high) {
        down = false;
        continue;
      }
      const across = xs(Math.floor(pixel * bin));
      if (down) context.lineTo(across, high);
      else context.moveTo(across, high);
      context.lineTo(across, low);
      down = true;
    }
  } else {
    for (let k = 0; k < count; k += 1) {
      const value = ys(k);
      if (Number.isNaN(value)) {
        down = false;
        continue;
      }
      if (down) context.lineTo(xs(k), value);
      else context.moveTo(xs(k), value);
      down = true;
    }
  }
  context.stroke();
}

