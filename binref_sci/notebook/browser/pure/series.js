// Where steps lie along the chart of time series.

/** The x of the chart: the times that came with a series, else (`times` null) the step numbers. */
export function seriesRange(pins, n) {
  for (const pin of pins) {
    const { times } = pin;
    if (times?.length > 1 && times[0] !== times.at(-1)) return { times: pin, lo: times[0], hi: times.at(-1) };
  }
  return { times: null, lo: 0, hi: Math.max(1, n - 1) };
}

/** The step at a share of the chart's width. */
export function stepAt({ times: pin, lo, hi }, share) {
  const x = lo + share * (hi - lo);
  if (!pin) return Math.round(x);
  let best = 0;
  pin.times.forEach((time, k) => {
    if (Math.abs(time - x) < Math.abs(pin.times[best] - x)) best = k;
  });
  return pin.steps[best];
}

/** The share of the chart's width at a step. */
export function shareAt({ times: pin, lo, hi }, step) {
  if (!pin) return (step - lo) / (hi - lo);
  const { steps, times } = pin;
  let after = 0;
  while (after < steps.length - 1 && steps[after] < step) after += 1;
  const before = Math.max(0, after - 1);
  const part = steps[after] === steps[before] ? 0 : (step - steps[before]) / (steps[after] - steps[before]);
  return (times[before] + part * (times[after] - times[before]) - lo) / (hi - lo);
}

/** The least and the largest value of all pins; 0 and 1 without any. */
export function extentOf(pins) {
  let low = Infinity;
  let high = -Infinity;
  for (const { values } of pins) {
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low > high ? [0, 1] : [low, high];
}
