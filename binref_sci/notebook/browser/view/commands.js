// What keys and buttons do.

import { speedOf } from "../pure/keys.js";

const LOOPS = ["loop", "bounce", "once"];

/** Commands by name: those of a player, and what else is given. */
export function commandsOf(player, more) {
  const { playhead, scales, telemetry } = player;
  const colours = (change) => () => player.can("colours") && change();
  return {
    play: () => player.toggle(),
    back: () => player.step(-1),
    forward: () => player.step(1),
    back10: () => player.step(-10),
    forward10: () => player.step(10),
    first: () => player.seek(0),
    last: () => player.end(),
    faster: () => player.set("fps", speedOf(playhead.fps, 1)),
    slower: () => player.set("fps", speedOf(playhead.fps, -1)),
    loop: () => player.set("loop", LOOPS[(LOOPS.indexOf(playhead.loop) + 1) % LOOPS.length]),
    reverse: () => player.set("direction", -playhead.direction),
    mode: () => player.set("mode", playhead.every ? "realtime" : "every"),
    in: () => player.mark("in"),
    out: () => player.mark("out"),
    all: () => player.mark("all"),
    colour: colours(() => scales.nextColour()),
    norm: colours(() => scales.nextNorm()),
    auto: colours(() => scales.limits("sampled", playhead.index)),
    full: colours(() => scales.limits("full", playhead.index)),
    telemetry: () => {
      telemetry.shown = !telemetry.shown;
      player.refresh();
    },
    unzoom: () => player.zoom(null),
    ...more,
  };
}

/** Whether a key press is for the player, and not for the control that has the focus. */
export function isOurs({ key, target }, name) {
  if (target.matches("select, input[type='number']")) return name === "leave";
  if (target.matches("button") && key === " ") return false; // presses the button
  return !target.matches(".br-sliders input") || name === "play" || name === "leave";
}
