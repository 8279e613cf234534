// The colour bar.

import { sparse } from "../pure/ticks.js";
import { MEDIUM, SMALL, TICK, fitText } from "./axes.js";

/** The colour bar into `box`: its colours, a triangle for what lies outside, its ticks and label. */
export function drawBar(context, box, { colours, table, vertical, bad, inks }) {
  const bar = barIn(box, colours.extend, vertical);
  fillBar(context, bar, table);
  outlineBar(context, bar, inks);
  const widest = drawBarTicks(context, bar, colours.ticks ?? [], inks);
  drawBarLabel(context, bar, `${colours.about ? "≈ " : ""}${colours.label ?? ""}`, widest, inks);
  if (bad && vertical) drawBadCells(context, box, css(table[0]), inks);
}

/**
 * Measures of a bar. `point(along, across)` is a place on it, along from the low end; its colours
 * lie from `first` on over `inner`, and at either end may be a triangle as long as `tip`.
 */
function barIn(box, extend, vertical) {
  const { x, y, width, height } = box;
  const length = vertical ? height : width;
  const thick = vertical ? width : height;
  const above = extend === "max" || extend === "both";
  const below = extend === "min" || extend === "both";
  const tip = Math.round(thick * 0.8);
  const first = below ? tip : 0;
  const inner = length - first - (above ? tip : 0);
  const point = vertical
    ? (along, across) => [x + across, y + height - along]
    : (along, across) => [x + along, y + across];
  return { box, vertical, length, thick, above, below, tip, first, inner, point };
}

function css(pixel) {
  return `rgba(${pixel & 255},${(pixel >> 8) & 255},${(pixel >> 16) & 255},${(pixel >>> 24) / 255})`;
}

function tracePolygon(context, { point }, ...corners) {
  context.beginPath();
  corners.forEach(([along, across], k) => context[k ? "lineTo" : "moveTo"](...point(along, across)));
  context.closePath();
}

function fillBar(context, bar, table) {
  const { length, thick, above, below, tip, first, inner } = bar;
  const fill = (code, ...corners) => {
    context.fillStyle = css(table[code]);
    tracePolygon(context, bar, ...corners);
    context.fill();
  };
  for (let code = 2; code <= 254; code += 1) {
    const from = first + ((code - 2) * inner) / 253;
    const to = Math.min(first + inner, first + ((code - 1) * inner) / 253 + 1.5); // no seams
    fill(code, [from, 0], [to, 0], [to, thick], [from, thick]);
  }
  if (below) fill(1, [0, thick / 2], [tip, 0], [tip, thick]);
  if (above) fill(255, [length, thick / 2], [length - tip, 0], [length - tip, thick]);
}

function outlineBar(context, bar, inks) {
  const { length, thick, above, below, first, inner } = bar;
  const corners = [[first, 0]];
  if (below) corners.push([0, thick / 2]);
  corners.push([first, thick], [first + inner, thick]);
  if (above) corners.push([length, thick / 2]);
  corners.push([first + inner, 0]);
  context.strokeStyle = inks.line;
  context.lineWidth = 1;
  tracePolygon(context, bar, ...corners);
  context.stroke();
}

/** Ticks and their words; gives the width of the widest. */
function drawBarTicks(context, { vertical, thick, first, inner, point }, ticks, inks) {
  let widest = 0;
  context.font = `${SMALL}px ${inks.font}`;
  context.fillStyle = inks.muted;
  context.textAlign = vertical ? "left" : "center";
  context.textBaseline = vertical ? "middle" : "top";
  const right = context.canvas.width / context.getTransform().a;
  const size = (label) => (vertical ? SMALL + 2 : context.measureText(label).width);
  for (const [at, label] of sparse(ticks, inner, size, 4)) {
    const [x, y] = point(first + at * inner, thick);
    const { width } = context.measureText(label);
    widest = Math.max(widest, width);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(...(vertical ? [x + TICK, y] : [x, y + TICK]));
    context.stroke();
    const across = vertical ? x + TICK + 3 : Math.min(Math.max(x, width / 2), right - width / 2); // not cut off
    context.fillText(label, across, y + (vertical ? 0 : TICK + 3));
  }
  return widest;
}

function drawBarLabel(context, { box, vertical }, label, widest, inks) {
  const { x, y, width, height } = box;
  context.fillStyle = inks.text;
  context.font = `${MEDIUM}px ${inks.font}`;
  context.textAlign = "center";
  if (!vertical) {
    context.textBaseline = "top";
    fitText(context, label, x + width / 2, y + height + TICK + SMALL + 6, width);
    return;
  }
  context.save();
  context.translate(x + width + TICK + 3 + widest + MEDIUM, y + height / 2);
  context.rotate(Math.PI / 2);
  context.textBaseline = "middle";
  fitText(context, label, 0, 0, height);
  context.restore();
}

/** Below an upright bar: the colour of cells without data. */
function drawBadCells(context, { x, y, width, height }, colour, inks) {
  context.fillStyle = colour;
  context.fillRect(x, y + height + 10, width, 10);
  context.strokeRect(x + 0.5, y + height + 10.5, width - 1, 9);
  context.font = `${SMALL}px ${inks.font}`;
  context.fillStyle = inks.muted;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText("no data", x + width + TICK + 3, y + height + 15.5);
}
