// Canvases at the resolution of the display.

/** A drawing context of `canvas`, made as large as `width` x `height` CSS pixels need; empty. */
function sheetOf(canvas, width, height, ratio) {
  const across = Math.max(1, Math.round(width * ratio));
  const down = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A canvas of `width` x `height` CSS pixels at the resolution of the display; its context. */
export function prepare(canvas, width, height, ratio) {
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  return sheetOf(canvas, width, height, ratio);
}

/**
 * Draw what changes seldom. A canvas that was drawn on is copied anew with each frame of the page;
 * one that was given a picture is not.
 */
export function drawn(canvas, width, height, ratio, draw) {
  if (!globalThis.OffscreenCanvas) {
    draw(prepare(canvas, width, height, ratio));
    return;
  }
  const sheet = new OffscreenCanvas(1, 1);
  draw(sheetOf(sheet, width, height, ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = sheet.width;
  canvas.height = sheet.height;
  canvas.getContext("bitmaprenderer").transferFromImageBitmap(sheet.transferToImageBitmap());
}
