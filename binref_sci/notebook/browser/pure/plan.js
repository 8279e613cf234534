// Lists of frames to ask for, most wanted first.

import { upcoming } from "./order.js";

export const LIST_LENGTH = 48;
const AHEAD_PLAYING = 600;
const AHEAD_PAUSED = 4096;

/** In play, where every frame is shown; `ahead(count)` are the frames to come. */
export function eachToCome(index, ahead, capacity, missing) {
  return [index, ...ahead(Math.min(capacity, AHEAD_PLAYING))].filter(missing).slice(0, LIST_LENGTH);
}

/** In play, where frames can come too late: those that are `shown` after the next `lead` ones. */
export function shownToCome(lead, ahead, capacity, shown, missing) {
  const reach = Math.min(capacity, 4 * LIST_LENGTH) + lead;
  const list = ahead(reach).slice(lead);
  return list.filter((i) => shown(i) && missing(i)).slice(0, LIST_LENGTH);
}

/** At rest: what fills the cache ahead, then some frames behind. */
export function aroundRest(index, direction, order, capacity, missing) {
  const reach = Math.min(capacity, AHEAD_PAUSED);
  const ahead = upcoming(index, direction, order, reach);
  const behind = upcoming(index, -direction, { ...order, loop: "once" }, Math.floor(reach / 4));
  const nearest = [index, ...ahead.slice(0, 4), ...behind.slice(0, 2)];
  const list = [...new Set([...nearest, ...ahead, ...behind])].slice(0, reach);
  return list.filter(missing).slice(0, LIST_LENGTH);
}
