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
  const count = Math.max(1, scene.panels.length);
  const vertical = !narrow;
  const widest = measuring(font);
  const barWidths = bars.map(({ ticks = [], label }) => {
    const words = Math.max(widest(ticks), 42); // room for "no data"
    return Math.ceil(14 + TICK + 3 + words + (label ? MEDIUM + 10 : 2));
  });
  const barsWidth = vertical ? barWidths.reduce((sum, bar) => sum + bar + 14, 0) : 0;
  const most = Math.max(1, Math.min(scene.columns || 1, count, Math.floor((inner - barsWidth) / LEAST_PANEL)));
  const rows = Math.ceil(count / most);
  const columns = Math.ceil(count / rows);
  const height = limit || (rows > 1 ? 300 : 480);
  const barHeight = ownBars ? OWN_BAR : 0;
  const alike = (axis) => scene.panels.every((panel) => JSON.stringify(panel[axis]) === JSON.stringify(scene.panels[0]?.[axis]));
  const [sharedX, sharedY] = [alike("x"), alike("y") && scene.kind !== "line"];
  const margins = scene.panels.map((panel, k) => {
    const showX = !sharedX || k + columns >= count;
    const showY = !sharedY || k % columns === 0;
    const { y, yTicks } = scales(k, 400, height);
    const left = showY ? Math.ceil(widest(yTicks)) + TICK + 6 + (y ? MEDIUM + 8 : 0) : TICK + 6;
    const axis = showX ? TICK + 6 + SMALL + (panel.x.label ? MEDIUM + 8 : 2) : TICK + 8;
    return { showX, showY, left, right: 12, top: count > 1 ? 24 : 8, bottom: axis + barHeight };
  });
  // what the margins of the widest row leave
  let taken = 0;
  for (let row = 0; row < rows; row += 1) taken = Math.max(taken, sides(margins.slice(row * columns, (row + 1) * columns)));
  const free = Math.max(80, Math.floor((inner - barsWidth - taken) / columns));
  const panels = scene.panels.map((panel, k) => {
    const { showX, showY, ...around } = margins[k];
    const own = scene.kind === "line" ? 2.2 : Math.min(3, Math.max(0.6, panel.columns / Math.max(1, panel.rows)));
    const aspect = panel.aspect || own;
    const across = Math.round(Math.min(free, height * aspect));
    const down = Math.max(40, Math.round(across / aspect));
    return { margins: around, width: across, height: down, showX, showY, barHeight, title: count > 1 ? panel.title : "" };
  });
  const first = panels.slice(0, columns);
  const panelsWidth = first.reduce((sum, { width }) => sum + width, sides(first.map((panel) => panel.margins)));
  return { panels, columns, rows, vertical, barWidths, width: Math.ceil(panelsWidth + barsWidth) };
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

function sides(margins) {
  return margins.reduce((sum, { left, right }) => sum + left + right, 0);
}

/** Measures the widest label of ticks. */
function measuring(font) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `${SMALL}px ${font}`;
  return (ticks) => Math.max(0, ...ticks.map(([, label]) => context.measureText(label).width));
}
