// Sizes and places of panels and bars.

import { MEDIUM, SMALL, TICK } from "./axes.js";

const OWN_BAR = 54; // height of a colour bar under its panel
const LEAST_PANEL = 200; // width, with its margins

/**
 * Lay a scene out in `inner` pixels. `scales(k)` gives the ticks of a panel's axes, `bars` the
 * colour scales that have a bar beside the panels, `ownBars` is whether each panel has its own
 * under it, `limit` is the largest height of a picture and `font` that of labels.
 */
export function planStage(scene, { inner, narrow, limit, bars, ownBars, scales, font }) {
  const widest = measuring(font);
  const vertical = !narrow;
  const barWidths = bars.map((bar) => widthOfBar(bar, widest));
  const barsWidth = vertical ? barWidths.reduce((sum, width) => sum + width + 14, 0) : 0;
  const { rows, columns } = gridOf(scene, inner - barsWidth);
  const height = limit || (rows > 1 ? 300 : 480);
  const barHeight = ownBars ? OWN_BAR : 0;
  const around = marginsOf(scene, columns, { widest, scales: (k) => scales(k, 400, height), barHeight });
  const free = Math.max(80, Math.floor((inner - barsWidth - widestSides(around, columns)) / columns));
  const panels = scene.panels.map((panel, k) => {
    const { showX, showY, ...margins } = around[k];
    const size = sizeOf(panel, scene.kind, free, height);
    return { margins, ...size, showX, showY, barHeight, title: scene.panels.length > 1 ? panel.title : "" };
  });
  const first = panels.slice(0, columns);
  const panelsWidth = first.reduce((sum, { width, margins }) => sum + width + sides(margins), 0);
  return { panels, columns, rows, vertical, barWidths, width: Math.ceil(panelsWidth + barsWidth) };
}

function widthOfBar({ ticks = [], label }, widest) {
  const words = Math.max(widest(ticks), 42); // room for "no data"
  return Math.ceil(14 + TICK + 3 + words + (label ? MEDIUM + 10 : 2));
}

/** As many columns as there is room for, and no more than fill the rows. */
function gridOf({ panels, columns: wanted }, width) {
  const count = Math.max(1, panels.length);
  const most = Math.max(1, Math.min(wanted || 1, count, Math.floor(width / LEAST_PANEL)));
  const rows = Math.ceil(count / most);
  return { rows, columns: Math.ceil(count / rows) };
}

/** Margins of each panel. Axes that are alike are labelled at the left and at the bottom only. */
function marginsOf({ kind, panels }, columns, { widest, scales, barHeight }) {
  const count = panels.length;
  const alike = (axis) => panels.every((panel) => JSON.stringify(panel[axis]) === JSON.stringify(panels[0][axis]));
  const [sharedX, sharedY] = [alike("x"), alike("y") && kind !== "line"];
  return panels.map((panel, k) => {
    const showX = !sharedX || k + columns >= count;
    const showY = !sharedY || k % columns === 0;
    const { y, yTicks } = scales(k);
    const left = showY ? Math.ceil(widest(yTicks)) + TICK + 6 + (y ? MEDIUM + 8 : 0) : TICK + 6;
    const axis = showX ? TICK + 6 + SMALL + (panel.x.label ? MEDIUM + 8 : 2) : TICK + 8;
    return { showX, showY, left, right: 12, top: count > 1 ? 24 : 8, bottom: axis + barHeight };
  });
}

/** The picture of a panel, no larger than `free` pixels across and about `most` down. */
function sizeOf({ aspect, rows, columns }, kind, free, most) {
  const own = kind === "line" ? 2.2 : Math.min(3, Math.max(0.6, columns / Math.max(1, rows)));
  const ratio = aspect || own;
  const width = Math.round(Math.min(free, most * ratio));
  return { width, height: Math.max(40, Math.round(width / ratio)) };
}

/** What the margins of the widest row take. */
function widestSides(margins, columns) {
  let most = 0;
  for (let first = 0; first < margins.length; first += columns) {
    most = Math.max(most, margins.slice(first, first + columns).reduce((sum, one) => sum + sides(one), 0));
  }
  return most;
}

/** From the top of the first row of pictures to the bottom of the last. */
export function tall({ panels, rows, columns }) {
  let sum = panels[0].height;
  for (let row = 1; row < rows; row += 1) {
    const above = panels.slice((row - 1) * columns, row * columns);
    const { margins, height } = panels[row * columns];
    sum += Math.max(...above.map((panel) => panel.margins.bottom)) + margins.top + height;
  }
  return sum;
}

function sides({ left, right }) {
  return left + right;
}

/** Measures the widest label of ticks. */
function measuring(font) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `${SMALL}px ${font}`;
  return (ticks) => Math.max(0, ...ticks.map(([, label]) => context.measureText(label).width));
}
