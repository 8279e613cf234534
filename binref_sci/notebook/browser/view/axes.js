// Frame, ticks and labels of a drawing.

import { sparse } from "../pure/ticks.js";

export const TICK = 4;
export const SMALL = 11;
export const MEDIUM = 12;

/** Frame, ticks and labels around `box` = {x, y, width, height}. */
export function drawAxes(context, box, { x, y, title, showX, showY, xTicks, yTicks, inks }) {
  drawFrame(context, box, xTicks, yTicks, inks);
  context.font = `${SMALL}px ${inks.font}`;
  context.fillStyle = inks.muted;
  if (showX) drawWordsBelow(context, box, xTicks);
  if (showY) drawWordsBeside(context, box, yTicks);
  context.fillStyle = inks.text;
  context.font = `${MEDIUM}px ${inks.font}`;
  context.textAlign = "center";
  if (showX && x) {
    context.textBaseline = "top";
    fitText(context, x, box.x + box.width / 2, box.y + box.height + TICK + 6 + SMALL + 3, box.width);
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

/** A line around the box, and ticks outside of it. */
function drawFrame(context, { x, y, width, height }, xTicks, yTicks, inks) {
  context.strokeStyle = inks.line;
  context.lineWidth = 1;
  context.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
  context.beginPath();
  const below = y + height + 1;
  for (const [at] of xTicks) {
    const across = Math.round(x + at * width) + (at === 1 ? 0.5 : -0.5);
    context.moveTo(across, below);
    context.lineTo(across, below + TICK);
  }
  for (const [at] of yTicks) {
    const down = Math.round(y + (1 - at) * height) + (at === 0 ? 0.5 : -0.5);
    context.moveTo(x - 1, down);
    context.lineTo(x - 1 - TICK, down);
  }
  context.stroke();
}

function drawWordsBelow(context, { x, y, width, height }, ticks) {
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const [at, label] of sparse(ticks, width, (text) => context.measureText(text).width)) {
    context.fillText(label, x + at * width, y + height + TICK + 4);
  }
}

function drawWordsBeside(context, { x, y, height }, ticks) {
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const [at, label] of sparse(ticks, height, () => SMALL, 4)) {
    context.fillText(label, x - TICK - 4, y + (1 - at) * height);
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
