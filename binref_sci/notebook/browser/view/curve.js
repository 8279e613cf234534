// One curve.

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
