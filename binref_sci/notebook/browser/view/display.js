// One display of a player.

import { now } from "../pure/clock.js";
import { commandOf } from "../pure/keys.js";
import { ColourPanel } from "./colourpanel.js";
import { commandsOf, isOurs } from "./commands.js";
import { Controls } from "./controls.js";
import { element, flag, press, show } from "./dom.js";
import { Head } from "./head.js";
import { keyList } from "./help.js";
import { Paper } from "./paper.js";
import { Readout } from "./readout.js";
import { Series } from "./series.js";
import { Sliders } from "./sliders.js";
import { download, snapshot } from "./snapshot.js";
import { Stage } from "./stage.js";
import { Timeline } from "./timeline.js";

const WORDS_MS = 50; // how often time and slider are renewed while playing
const DESCRIBED_MS = 1000; // how often the picture is described while playing
const NARROW = 560; // pixels

/** Builds the parts of a display in `host`, lays them out and has them painted. */
export class Display {
  #player;
  #host;
  #root;
  #abort = new AbortController();
  #commands;
  #paper;
  #head;
  #stage;
  #readout;
  #timeline;
  #controls;
  #sliders;
  #colours;
  #series;
  #help = keyList();
  #width = 0; // 0: not laid out
  #frame = null; // the one that was painted last
  #seenColours;
  #seenTables;
  #wordedAt = 0;
  #describedAt = 0;

  visible = false;
  lod = 0;

  constructor(player, host) {
    this.#player = player;
    this.#host = host;
    this.#build();
    host.classList.add("binref-player-host");
    host.append(this.#root);
    this.#applyTheme();
    this.#observe();
    player.screen.displays.add(this);
  }

  #build() {
    const player = this.#player;
    this.#root = element("div", {
      class: "binref-player",
      role: "group",
      tabindex: "0",
      "aria-label": `Player of ${player.scene.name || "trajectory"}`,
      "data-lm-suppress-shortcuts": "true",
      "data-ready": "0",
    });
    this.#commands = commandsOf(player, {
      save: () => this.#save(),
      help: () => toggle(this.#help, this.#controls.help),
      leave: () => this.#leave(),
    });
    this.#paper = new Paper(this.#root, player.options.theme);
    this.#head = new Head(player);
    this.#readout = new Readout(player);
    this.#stage = new Stage(player, this.#paper, {
      hover: (panel, point) => this.#readout.hover(panel, point),
      focused: () => this.#active === this.#root,
    });
    this.#timeline = new Timeline(player, this.#paper);
    this.#controls = new Controls(player, (name) => this.#commands[name](), () => this.#openColours());
    this.#sliders = new Sliders(player);
    this.#colours = new ColourPanel(player);
    this.#series = new Series(player, this.#paper);
    this.#root.append(
      this.#head.node,
      this.#stage.node,
      this.#readout.node,
      this.#timeline.node,
      this.#controls.node,
      this.#sliders.node,
      this.#colours.node,
      this.#series.node,
      this.#help,
    );
    this.#root.addEventListener("keydown", (event) => this.#key(event));
    this.#root.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("button, input, select, .br-chart")) this.#focus();
    });
  }

  dispose() {
    this.#abort.abort();
    this.#player.screen.displays.delete(this);
    this.#root.remove();
    this.#host.classList.remove("binref-player-host");
    this.#player.measure();
    this.#player.want();
  }

  // --- watching the page ---

  #observe() {
    const { signal } = this.#abort;
    const resizer = new ResizeObserver(() => {
      const width = this.#host.clientWidth;
      if (width > 0 && width !== this.#width) this.relayout();
    });
    resizer.observe(this.#host);
    const watcher = new IntersectionObserver((entries) => {
      this.visible = entries.at(-1).isIntersecting;
      this.#awake();
    });
    watcher.observe(this.#root);
    signal.addEventListener("abort", () => {
      resizer.disconnect();
      watcher.disconnect();
    });
    this.#paper.watch(() => this.#applyTheme(), signal);
    document.addEventListener("visibilitychange", () => this.#awake(), { signal });
    globalThis.addEventListener("resize", () => {
      if (this.#paper.measure()) this.relayout();
    }, { signal });
  }

  /** Shown again, or hidden: canvases may have been emptied meanwhile. */
  #awake() {
    if (!this.#width) this.relayout();
    this.#player.measure();
    this.#player.want();
    this.#player.screen.repaint();
  }

  #applyTheme() {
    // a host may hide everything while it changes its theme, and show it before anybody looks
    if (this.#paper.read() || !this.#width) this.relayout();
  }

  // --- layout ---

  relayout() {
    const paper = this.#paper;
    const width = this.#host.clientWidth;
    if (width === 0) {
      this.#width = 0; // to be done when there is room again
      return;
    }
    paper.read();
    if (!paper.inks) return;
    paper.measure();
    this.#width = width;
    const narrow = width < NARROW;
    flag(this.#root, "narrow", narrow ? "1" : "0");
    const style = getComputedStyle(this.#root);
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) + 2;
    const inner = Math.max(200, Math.floor(width - padding));
    const plan = this.#stage.place(inner, narrow);
    this.#root.style.maxWidth = `${Math.max(plan.width, Math.min(inner, NARROW)) + padding}px`;
    this.#timeline.relayout();
    this.#series.relayout(Math.min(plan.width, width), plan.panels[0]?.margins.left ?? 40);
    this.lod = this.#stage.lod(plan);
    this.#player.measure();
    this.#player.screen.repaint();
  }

  // --- keys ---

  get #active() {
    return this.#root.getRootNode().activeElement;
  }

  #focus() {
    this.#root.focus({ preventScroll: true });
  }

  #key(event) {
    const name = commandOf(event);
    if (name === null || !isOurs(event, name)) return;
    event.preventDefault();
    event.stopPropagation();
    this.#commands[name]();
  }

  #openColours() {
    toggle(this.#colours.node, this.#controls.palette);
    this.#colours.paint();
  }

  /** Close what is open; else give the focus back to the cell around. */
  #leave() {
    if (this.#stage.cancel()) return;
    if (!this.#help.hidden) {
      this.#commands.help();
      return;
    }
    if (!this.#colours.node.hidden) {
      this.#openColours();
      this.#focus();
      return;
    }
    this.#active?.blur();
    for (let node = this.#host.parentElement; node; node = node.parentElement) {
      if (node.matches(".jp-Notebook, .jp-Cell[tabindex], [tabindex='0']")) {
        node.focus({ preventScroll: true });
        return;
      }
    }
  }

  #save() {
    const { playhead, scene, screen } = this.#player;
    const title = [this.#head.title, screen.shown?.label].filter(Boolean).join("   ");
    download(snapshot(this.#stage, { title, inks: this.#paper.inks }), `${scene.name || "frame"}-${playhead.index}`);
  }

  // --- painting ---

  /** Paint a frame (null: there is none); `stale`: again, `all`: with all the controls. */
  paint(frame, { stale, all }) {
    const { scales } = this.#player;
    if (!this.#width) this.relayout();
    if (!this.#width) return;
    let again = stale;
    if (scales.told !== this.#seenColours || scales.tables !== this.#seenTables) {
      this.#seenColours = scales.told;
      this.#seenTables = scales.tables;
      this.relayout();
      again = true;
    }
    if (frame) {
      if (again || frame !== this.#frame) this.#paintFrame(frame);
      this.#flagFrame(frame);
    }
    this.#paintPosition(frame);
    if (all) this.#paintControls();
    this.#timeline.paintCached();
    this.#series.paintPlayhead();
  }

  #paintFrame(frame) {
    this.#stage.paint(frame);
    this.#frame = frame;
    if (this.#stage.see(frame)) this.relayout();
    this.#readout.describe(frame);
    if (!this.#player.playhead.playing || now() - this.#describedAt >= DESCRIBED_MS) {
      this.#describedAt = now();
      this.#stage.describe(frame);
    }
    this.#readout.answer();
  }

  /** What the root tells of the frame that is shown. */
  #flagFrame(frame) {
    const { frames, playhead } = this.#player;
    const at = frame.i === playhead.index;
    const exact = at && frame.ver === frames.ver && this.#player.exact(frame.i);
    flag(this.#root, "shownIndex", String(frame.i));
    flag(this.#root, "exact", exact ? "1" : "0");
    if (exact) flag(this.#root, "ready", "1");
    flag(this.#root, "dim", at || playhead.playing ? "0" : "1");
  }

  /** The playhead has moved: the root says so before it is painted. */
  inexact() {
    flag(this.#root, "exact", "0");
  }

  /** What changes with every frame. */
  #paintPosition(frame) {
    const { error, frames, playhead } = this.#player;
    const { index, playing } = playhead;
    flag(this.#root, "index", String(index));
    flag(this.#root, "playing", playing ? "1" : "0");
    const time = now();
    // words and slider make the host lay out its page again: as often as can be read
    if (playing && time - this.#wordedAt < WORDS_MS) return;
    this.#wordedAt = time;
    const label = frames.labels.get(index);
    this.#controls.paintPosition(label ?? frame?.label ?? "");
    this.#timeline.paintPosition(label ?? "");
    this.#stage.note(frames.failed.get(index) ?? error ?? "");
  }

  /** What changes when somebody does something. */
  #paintControls() {
    const { kernel } = this.#player;
    this.#head.paint();
    flag(this.#root, "busy", kernel.busy ? "1" : "0");
    flag(this.#root, "kernel", kernel.gone ? "gone" : kernel.busy ? "busy" : "there");
    this.#controls.paint();
    this.#timeline.paintPart();
    this.#colours.paint();
    this.#sliders.paint();
    this.#stage.paintTools();
    if (this.#series.paintPins()) this.#stage.drawPins();
  }

  answerHover() {
    this.#readout.answer();
  }

  drawSeries() {
    this.#series.draw();
  }
}

/** Show or hide a panel, and say so on its button. */
function toggle(panel, made) {
  show(panel, panel.hidden);
  press(made, !panel.hidden);
}
