// The colour bar.

import { sparse } from "../pure/ticks.js";
import { MEDIUM, SMALL, TICK, fitText } from "./axes.js";

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
