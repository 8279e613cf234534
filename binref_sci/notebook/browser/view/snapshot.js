// A picture of what is shown, as a file.

import { element } from "./dom.js";

const SCALE = 2;
const PAD = 16;
const TITLE = 28;

/** What is on the stage, with a title above it, as one canvas at twice the resolution. */
export function snapshot(stage, { title, inks }) {
  const { left, top, width, height } = stage.node.getBoundingClientRect();
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil((width + 2 * PAD) * SCALE);
  canvas.height = Math.ceil((height + 2 * PAD + TITLE) * SCALE);
  const context = canvas.getContext("2d");
  context.scale(SCALE, SCALE);
  context.fillStyle = inks.ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = inks.text;
  context.font = `600 14px ${inks.font}`;
  context.fillText(title, PAD, PAD + 12);
  context.translate(PAD - left, PAD + TITLE - top);
  for (const panel of stage.panels) {
    putPicture(context, panel);
    put(context, panel.axes);
    if (!panel.bar.hidden) put(context, panel.bar);
  }
  for (const bar of stage.bars) put(context, bar);
  return canvas;
}

/** The part of the picture that its box shows. */
function putPicture(context, { box, picture, line }) {
  const { left, top, width, height } = box.getBoundingClientRect();
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.imageSmoothingEnabled = line || picture.dataset.shrunk === "1";
  put(context, picture);
  context.restore();
  context.imageSmoothingEnabled = true;
}

function put(context, canvas) {
  const { left, top, width, height } = canvas.getBoundingClientRect();
  if (width > 0 && height > 0) context.drawImage(canvas, left, top, width, height);
}

/** Have the browser save a canvas as a PNG. */
export function download(canvas, name) {
  canvas.toBlob((blob) => {
    const address = URL.createObjectURL(blob);
    element("a", { href: address, download: `${name}.png` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }, "image/png");
}
