// The buttons below the timeline.

import { now } from "../pure/clock.js";
import { format, simulated } from "../pure/words.js";
import { button, element, entitle, flag, group, pick, press, say, select } from "./dom.js";
import { setIcon } from "./icons.js";

const MODES = { every: "every frame", realtime: "real time", timed: "as time passes" };
const LOOP_NAMES = { loop: "Loop", bounce: "Back and forth", once: "Once" };
const STRIDES = [1, 2, 5, 10, 20, 50, 100];

/** Playback, the time that is shown, pace, order, and more. `run(name)` runs a command. */
export class Controls {
  #player;
  #play;
  #time = element("span", { class: "br-time" });
  #position = element("span", { class: "br-position" });
  #speed = element("output", { class: "br-speed", "aria-label": "Speed" });
  #simulated = element("span", { class: "br-simulated", title: "Simulated time a second" });
  #loop;
  #part;
  #reverse;
  #mode;
  #stride;
  #gauge;

  /** `openColours` shows or hides the panel of colours. */
  constructor(player, run, openColours) {
    this.#player = player;
    const command = (name) => () => run(name);
    const where = element("div", { class: "br-where" }, this.#time, this.#position);
    const rest = element("div", { class: "br-rest" }, this.#buildOrder(command), this.#buildMore(command, openColours));
    // the rest is on one line, be it the first or the second
    this.node = element("div", { class: "br-controls" }, this.#buildPlayback(command), where, this.#buildPace(command), rest);
  }

  #buildPlayback(command) {
    this.#play = button("play", "Play", command("play"));
    this.#play.classList.add("br-play");
    return group(
      "Playback",
      button("first", "First step", command("first")),
      button("back", "One step back", command("back")),
      this.#play,
      button("forward", "One step forward", command("forward")),
      button("last", "Last step", command("last")),
    );
  }

  #buildPace(command) {
    return group(
      "Pace",
      button("slower", "Slower", command("slower"), { text: "−" }),
      this.#speed,
      button("faster", "Faster", command("faster"), { text: "+" }),
      this.#simulated,
    );
  }

  #buildOrder(command) {
    const player = this.#player;
    const { pace } = player.scene;
    const uneven = pace && !pace.even;
    const modes = Object.entries(MODES).filter(([mode]) => mode !== "timed" || uneven || player.playhead.mode === mode);
    this.#loop = button("loop", "Loop", command("loop"));
    this.#part = button("part", "Mark a part", () => player.mark(player.playhead.markedNext), { toggle: true });
    this.#reverse = button("reverse", "Backwards", command("reverse"), { toggle: true });
    this.#mode = select("mode", "Pace", modes, (mode) => player.set("mode", mode));
    const strides = STRIDES.map((stride) => [String(stride), strideWords(stride)]);
    this.#stride = select("stride", "Stride", strides, (stride) => player.set("stride", Number(stride)));
    return group("Order", this.#loop, this.#part, this.#reverse, this.#mode, this.#stride);
  }

  #buildMore(command, openColours) {
    this.palette = button("palette", "Colours and limits", openColours, { toggle: true });
    this.#gauge = button("telemetry", "Telemetry", command("telemetry"), { toggle: true, picture: "gauge" });
    this.help = button("help", "Keys", command("help"), { toggle: true });
    const more = group(
      "More",
      this.#player.can("colours") ? this.palette : null,
      button("save", "Save a picture", command("save")),
      this.#gauge,
      this.help,
    );
    more.classList.add("br-extras");
    return more;
  }

  /** Which frame is shown, whose time has a label. */
  paintPosition(label) {
    const { index, n, part } = this.#player.playhead;
    say(this.#time, label);
    const words = part.length === 2 ? ` (${part[0] + 1} to ${part[1] + 1})` : "";
    say(this.#position, n > 0 ? `${index + 1} / ${n}${words}` : "no steps yet");
  }

  paint() {
    const { playhead, scene, telemetry } = this.#player;
    const { direction, fps, loop, mode, playing, stride } = playhead;
    setIcon(this.#play.firstChild, playing ? "pause" : "play");
    entitle(this.#play, playing ? "Pause" : "Play");
    this.#paintSpeed();
    const { pace } = scene;
    say(this.#simulated, pace ? simulated(fps * stride * pace.step, pace.unit) : "");
    setIcon(this.#loop.firstChild, loop);
    entitle(this.#loop, `${LOOP_NAMES[loop]} (L)`);
    this.#paintPart();
    press(this.#reverse, direction < 0);
    pick(this.#mode, mode, MODES[mode]);
    pick(this.#stride, String(stride), strideWords(stride));
    press(this.#gauge, telemetry.shown);
  }

  /** The speed, and that it is not reached where that is so. */
  #paintSpeed() {
    const { playhead, skipping, telemetry } = this.#player;
    const { every, fps, playing } = playhead;
    const reached = playing ? telemetry.painted.perSecond(now()) : 0;
    const slow = reached > 0 && reached < (0.85 * Math.min(fps, 60)) / (every ? 1 : skipping.every);
    say(this.#speed, `${format(fps, 4)} fps`);
    entitle(this.#speed, slow ? `Speed; ${Math.round(reached)} frames a second are reached` : "Speed");
    flag(this.#speed, "slow", slow ? `${Math.round(reached)} reached` : "");
  }

  /** What the button for the part that is played does next. */
  #paintPart() {
    const { part, markedNext } = this.#player.playhead;
    press(this.#part, part.length === 2);
    if (part.length !== 2) entitle(this.#part, "Play only a part: from here on ([)");
    else entitle(this.#part, markedNext === "out" ? "Play only up to here (])" : "Play all steps again (X)");
  }
}

function strideWords(stride) {
  if (stride === 1) return "all steps";
  return stride === 2 ? "every 2nd" : `every ${stride}th`;
}
