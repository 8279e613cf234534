// Frame, ticks and labels of a drawing.

import { sparse } from "../pure/ticks.js";

export const TICK = 4;
export const SMALL = 11;
export const MEDIUM = 12;

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
export function fitText(context, text, x, y, width) {
  let shown = text;
  let keep = text.length;
  while (context.measureText(shown).width > width && keep > 6) {
    keep -= 1;
    shown = `${text.slice(0, Math.ceil(keep / 2))}…${text.slice(text.length - Math.floor(keep / 2))}`;
  }
  context.fillText(shown, x, y);
}
