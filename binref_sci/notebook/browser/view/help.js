// Which keys there are.

import { element } from "./dom.js";

const HELP = [
  ["Space", "play, pause"],
  ["← →", "one step; with Shift ten"],
  ["Home End", "first; last (follows a running solve)"],
  ["+ −", "faster, slower"],
  ["L R M", "loop, reverse, every frame or real time"],
  ["[ ] X", "play from here on; up to here; all again"],
  ["C N", "colours, norm"],
  ["A F", "limits: sampled, of all frames"],
  ["S T", "save a picture, telemetry"],
  ["0", "whole picture again"],
  ["Esc", "back to the cell"],
  ["drag", "zoom; Shift and drag moves"],
  ["click", "pin a point: its time series"],
];

/** The list of keys, which is hidden at first. */
export function keyList() {
  const rows = HELP.map(([keys, what]) => element("div", {}, element("kbd", {}, keys), element("span", {}, what)));
  return element("div", { class: "br-help", role: "group", "aria-label": "Keys", hidden: true }, ...rows);
}
