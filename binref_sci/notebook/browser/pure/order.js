// The order of play.

/**
 * The frame after `index`: {index, direction, ended}. `order` holds n, loop and stride, and
 * `first` and `last` where only a part is played.
 */
export function following(index, direction, { n, loop, stride, first = 0, last = n - 1 }) {
  const within = (at) => at >= first && at <= last;
  const begin = direction > 0 ? first : last;
  if (!within(index)) return { index: begin, direction, ended: false };
  const next = index + direction * stride;
  if (within(next)) return { index: next, direction, ended: false };
  if (loop === "loop") return { index: begin, direction, ended: false };
  if (loop === "bounce") {
    const back = index - direction * stride;
    if (within(back)) return { index: back, direction: -direction, ended: false };
    return { index, direction, ended: false };
  }
  return { index, direction, ended: true };
}

/** Up to `count` different frames in the order of play after `index`. */
export function upcoming(index, direction, order, count) {
  const found = [];
  const seen = new Set([index]);
  let at = { index, direction, ended: false };
  // a bounce passes every frame twice
  const most = Math.min(2 * Math.ceil(order.n / order.stride) + 2, (count + 2) * 2);
  for (let step = 1; step <= most && found.length < count; step += 1) {
    at = following(at.index, at.direction, order);
    if (at.ended) break;
    if (!seen.has(at.index)) {
      seen.add(at.index);
      found.push(at.index);
    }
  }
  return found;
}

/** How far frame `i` is from being played, frames behind counting three times. */
export function distance(i, index, direction, n, loop, first = 0, last = n - 1) {
  if (index < first || index > last) [first, last] = [0, n - 1]; // somebody looks at the rest
  if (i < first || i > last) return 4 * n + Math.abs(i - index);
  const ahead = (i - index) * direction;
  if (loop === "loop") {
    const length = last - first + 1;
    const round = ((ahead % length) + length) % length;
    return Math.min(round, 3 * (length - round));
  }
  return ahead >= 0 ? ahead : -3 * ahead;
}

/** The part that a press of the key for its start or its end leaves: [first, last], or []: all. */
export function markedPart(part, end, index, n) {
  const [first, last] = part.length === 2 ? part : [0, n - 1];
  const made = end === "in" ? [index, index < last ? last : n - 1] : [index > first ? first : 0, index];
  return made[0] === 0 && made[1] === n - 1 ? [] : made;
}
