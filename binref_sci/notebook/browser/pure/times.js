// Times of frames.

import { following } from "./order.js";

const LONGEST_STEP_S = 5; // in step with time: a gap between two frames is not waited for longer

/** The entry of `sorted` (rising or falling) that is nearest to `value`. */
export function nearestIn(sorted, value) {
  const rising = sorted[0] <= sorted.at(-1);
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value === rising) low = middle;
    else high = middle;
  }
  return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
}

/** The frame that belongs to frame `i` of a film with other times: of the same time, else the same step. */
export function matching(mine, its, i, last) {
  if (!mine?.length || !its?.length) return Math.min(i, last);
  if (mine.length === its.length && mine[0] === its[0] && mine.at(-1) === its.at(-1)) return Math.min(i, last);
  return nearestIn(mine, its[Math.min(i, its.length - 1)]);
}

/**
 * In step with time: how many steps are due, and how many mean steps they last. `owed` are mean
 * steps that have passed, `step` is the time of one.
 */
export function timedSteps({ index, direction }, order, { times, step, fps, owed }) {
  let at = { index, direction };
  let due = 0;
  let cost = 0;
  while (due < 1000) {
    const next = following(at.index, at.direction, order);
    const passed = times ? Math.abs(times[next.index] - times[at.index]) : 0;
    const turned = (next.index - at.index) * at.direction <= 0; // from the end to the start
    const share = passed / (step * order.stride);
    const lasts = next.ended || turned || !(share > 0) ? 1 : Math.min(share, LONGEST_STEP_S * fps);
    if (owed < cost + lasts) break;
    cost += lasts;
    due += 1;
    at = next;
    if (next.ended) break;
  }
  return [due, cost];
}
