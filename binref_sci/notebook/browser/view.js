import { WORDS_MS, simulated } from "./order.js";
import { coverage } from "./cache.js";
import { WHOLE, lodOf } from "./windows.js";
import { commandOf, format, percent, speedOf, spoken, ticksOf, unitOf } from "./words.js";
import { CMAPS, LOOPS, NORMS, Player, REDUCTIONS, now } from "./model.js";
import {
  attribute,
  darkness,
  drawn,
  element,
  flag,
  icon,
  inks,
  prepare,
  say,
  setIcon,
  show,
} from "./pieces.js";
import { MEDIUM, SMALL, TICK, drawAxes, drawBar, drawCurve } from "./drawings.js";
import { Panel } from "./panel.js";

// --- DOM: one display of a model -----------------------------------------------------------------

const OWN_BAR = 54; // height of a colour bar under its panel
const THUMB = 16; // width of the slider's thumb, as in the style sheet
const MODES = { every: "every frame", realtime: "real time", timed: "as time passes" };
const GONE = "The kernel was restarted or has ended. What is here still plays; run the cell again for more.";
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

class View {
  constructor(player, host) {
    this.player = player;
    this.host = host;
    this.visible = false;
    this.lod = 0;
    this.ratio = globalThis.devicePixelRatio || 1;
    this.abort = new AbortController();
    this.build();
    host.classList.add("binref-player-host");
    host.append(this.root);
    this.applyTheme();
    this.observe();
    player.views.add(this);
  }

  // --- building ---

  build() {
    const { player } = this;
    const { scene } = player;
    const name = scene.name || "trajectory";
    this.root = element("div", {
      class: "binref-player",
      role: "group",
      tabindex: "0",
      "aria-label": `Player of ${name}`,
      "data-lm-suppress-shortcuts": "true",
      "data-ready": "0",
    });
    this.title = element("span", { class: "br-title" });
    this.pill = element("button", { class: "br-pill br-live", type: "button", hidden: true, onclick: () => player.end() });
    this.badge = element("span", { class: "br-pill br-busy", role: "status" });
    this.work = element("span", { class: "br-pill br-work", role: "status" });
    this.stop = this.button("stop", "Stop", () => player.post({ type: "stop" }), { text: "stop" });
    const head = element("div", { class: "br-head" }, this.title, this.badge, this.work, this.stop, this.pill);

    this.grid = element("div", { class: "br-grid" });
    this.bars = element("div", { class: "br-bars" });
    this.unzoom = this.button("unzoom", "Show the whole picture", () => player.zoom(null), { text: "whole picture" });
    this.unzoom.classList.add("br-unzoom");
    this.monitor = element("div", { class: "br-monitor", hidden: true });
    this.stage = element("div", { class: "br-stage" }, this.grid, this.bars, this.unzoom, this.monitor);
    this.buildPanels();

    this.readout = element("span", { class: "br-value" });
    this.clipped = element("span", { class: "br-clipped" });
    const line = element("div", { class: "br-readout" }, this.readout, this.clipped);

    this.cachedBar = element("canvas", { class: "br-cached", "aria-hidden": "true" });
    this.partMark = element("div", { class: "br-part", "aria-hidden": "true", hidden: true });
    this.slider = element("input", { type: "range", class: "br-range", min: "0", step: "1", "aria-label": scene.dim || "step" });
    this.slider.addEventListener("input", () => player.seek(Number(this.slider.value), { scrub: true }));
    const timeline = element("div", { class: "br-timeline" }, this.cachedBar, this.partMark, this.slider);

    this.root.append(head, this.stage, line, timeline, this.buildControls(), this.buildSliders());
    this.root.append(this.buildColours(), this.buildSeries(), this.buildHelp());
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("button, input, select, .br-chart")) this.root.focus({ preventScroll: true });
    });
  }

  button(name, label, action, { text = "", toggle = false, picture = name } = {}) {
    const made = element("button", {
      type: "button",
      class: "br-button",
      "data-name": name,
      "aria-label": label,
      title: label,
      "aria-pressed": toggle ? "false" : null,
      onclick: action,
    });
    made.append(text || icon(picture));
    return made;
  }

  select(name, label, choices, action) {
    const made = element("select", { class: "br-select", "data-name": name, "aria-label": label, title: label });
    for (const [value, text] of choices) made.append(element("option", { value }, text));
    made.addEventListener("change", () => action(made.value));
    return made;
  }

  buildPanels() {
    this.panels = this.player.scene.panels.map((_, k) => new Panel(this, k));
    this.grid.replaceChildren(...this.panels.map((panel) => panel.node));
    const colours = new Set(this.player.scene.panels.map((panel) => panel.colour));
    const line = this.player.scene.kind === "line";
    const shown = line || this.player.options.show_bar === false ? [] : [...colours];
    this.ownBars = shown.length > 1; // each panel has its own scale under it
    this.barOf = (this.ownBars ? [] : shown).map((k) => ({ colour: k, canvas: element("canvas", { class: "br-bar", role: "img" }) }));
    this.bars.replaceChildren(...this.barOf.map(({ canvas }) => canvas));
  }

  buildControls() {
    const { player } = this;
    const command = (name) => () => this.command(name);
    this.playButton = this.button("play", "Play", command("play"));
    this.playButton.classList.add("br-play");
    const transport = element(
      "div",
      { class: "br-group", role: "group", "aria-label": "Playback" },
      this.button("first", "First step", command("first")),
      this.button("back", "One step back", command("back")),
      this.playButton,
      this.button("forward", "One step forward", command("forward")),
      this.button("last", "Last step", command("last")),
    );
    this.timeLabel = element("span", { class: "br-time" });
    this.position = element("span", { class: "br-position" });
    const where = element("div", { class: "br-where" }, this.timeLabel, this.position);

    this.speed = element("output", { class: "br-speed", "aria-label": "Speed" });
    this.simulated = element("span", { class: "br-simulated", title: "Simulated time a second" });
    this.partButton = this.button("part", "Mark a part", () => player.markNext(), { toggle: true });
    this.loopButton = this.button("loop", "Loop", command("loop"));
    this.reverseButton = this.button("reverse", "Backwards", command("reverse"), { toggle: true });
    const uneven = player.scene.pace && !player.scene.pace.even;
    const modes = Object.entries(MODES).filter(([mode]) => mode !== "timed" || uneven || player.mode === mode);
    this.mode = this.select("mode", "Pace", modes, (mode) => player.setting("mode", mode));
    const strides = [1, 2, 5, 10, 20, 50, 100].map((stride) => [String(stride), stride === 1 ? "all steps" : `every ${stride}th`]);
    strides[1][1] = "every 2nd";
    this.strideSelect = this.select("stride", "Stride", strides, (stride) => player.setting("stride", Number(stride)));
    const pace = element(
      "div",
      { class: "br-group", role: "group", "aria-label": "Pace" },
      this.button("slower", "Slower", command("slower"), { text: "−" }),
      this.speed,
      this.button("faster", "Faster", command("faster"), { text: "+" }),
      this.simulated,
    );
    const ways = element(
      "div",
      { class: "br-group", role: "group", "aria-label": "Order" },
      this.loopButton,
      this.partButton,
      this.reverseButton,
      this.mode,
      this.strideSelect,
    );
    this.gauge = this.button("telemetry", "Telemetry", command("telemetry"), { toggle: true, picture: "gauge" });
    this.helpButton = this.button("help", "Keys", command("help"), { toggle: true });
    const colours = player.can("colours");
    this.palette = this.button("palette", "Colours and limits", () => this.openColours(), { toggle: true });
    const extras = element(
      "div",
      { class: "br-group br-extras", role: "group", "aria-label": "More" },
      colours ? this.palette : null,
      this.button("save", "Save a picture", command("save")),
      this.gauge,
      this.helpButton,
    );
    const rest = element("div", { class: "br-rest" }, ways, extras); // on one line, be it the first or the second
    return element("div", { class: "br-controls" }, transport, where, pace, rest);
  }

  /** Sliders of the other dimensions. */
  buildSliders() {
    const { player } = this;
    this.sliders = (player.scene.sliders ?? []).map((slider, k) => {
      const input = element("input", {
        type: "range", class: "br-range", min: "0", max: String(slider.size - 1), step: "1",
        "aria-label": slider.label || slider.dim, "data-dim": slider.dim,
      });
      const value = element("span", { class: "br-slider-value" });
      input.addEventListener("input", () => player.setPosition(k, Number(input.value)));
      const name = element("span", { class: "br-slider-name" }, slider.label || slider.dim);
      return { slider, input, value, row: element("div", { class: "br-slider" }, name, input, value) };
    });
    return element("div", { class: "br-sliders" }, ...this.sliders.map(({ row }) => row));
  }

  buildSeries() {
    this.chart = element("canvas", { class: "br-chart", role: "img" });
    this.chips = element("div", { class: "br-chips" });
    const move = (event) => {
      const { left } = this.chart.getBoundingClientRect();
      const box = this.chartBox;
      if (!box || this.player.n < 2) return;
      const share = (event.clientX - left - box.x) / box.width;
      this.player.seek(this.stepAt(Math.min(1, Math.max(0, share))), { scrub: true });
    };
    this.chart.addEventListener("pointerdown", (event) => {
      this.chart.setPointerCapture(event.pointerId);
      move(event);
    });
    this.chart.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) move(event);
    });
    this.playhead = element("div", { class: "br-playhead", "aria-hidden": "true" });
    this.plot = element("div", { class: "br-plot" }, this.chart, this.playhead);
    this.series = element("div", { class: "br-series", hidden: true }, this.plot, this.chips);
    return this.series;
  }

  /** Colours, norm and limits of one colour scale. */
  buildColours() {
    const { player } = this;
    const { scene } = player;
    this.scale = 0;
    const names = [...new Set(scene.panels.map(({ colour: k }) => k))].map((k) => [String(k), player.colours[k]?.label ?? ""]);
    this.which = this.select("which", "Colour scale", names, (k) => {
      this.scale = Number(k);
      this.paintColours();
    });
    show(this.which, names.length > 1);
    const line = scene.kind === "line";
    this.cmap = this.select("cmap", "Colormap", CMAPS.map((name) => [name, name]), (cmap) => player.post({ type: "colour", cmap }));
    const turn = () => {
      const { value } = this.cmap;
      player.post({ type: "colour", cmap: value.endsWith("_r") ? value.slice(0, -2) : `${value}_r` });
    };
    this.inverted = this.button("invert", "Invert the colours", turn, { text: "invert", toggle: true });
    this.reduce = this.select("reduce", "Cells of one pixel", Object.entries(REDUCTIONS), (how) => {
      player.tell({ reduce: how });
      player.reduceBy(how);
    });
    const several = element("label", { class: "br-several" }, "several cells a pixel: ", this.reduce);
    this.norm = this.select("norm", "Norm", NORMS.map((name) => [name, name]), (kind) => player.post({ type: "norm", kind }));
    for (const one of [this.cmap, this.inverted, this.norm, several]) show(one, !line);
    const field = (label) => {
      const input = element("input", { type: "number", step: "any", class: "br-number", "aria-label": label });
      input.addEventListener("change", () => this.giveLimits());
      return input;
    };
    this.low = field("Lower limit");
    this.high = field("Upper limit");
    const rule = (how, text) => this.button(how, `Limits of ${text}`, () => player.limits(how, { colour: this.scale }), { text });
    this.rule = element("span", { class: "br-rule" });
    this.colourPanel = element(
      "div",
      { class: "br-colours", role: "group", "aria-label": "Colours and limits", hidden: true },
      element("div", { class: "br-group" }, this.which, this.cmap, this.inverted, this.norm),
      element("div", { class: "br-group" }, this.low, element("span", {}, "to"), this.high, this.rule),
      element("div", { class: "br-group" }, "limits from:", rule("sampled", "a sample"), rule("frame", "this frame"), rule("full", "all frames")),
      several,
    );
    return this.colourPanel;
  }

  openColours() {
    show(this.colourPanel, this.colourPanel.hidden);
    attribute(this.palette, "aria-pressed", String(!this.colourPanel.hidden));
    this.paintColours();
  }

  giveLimits() {
    const [lo, hi] = [this.low, this.high].map((input) => input.valueAsNumber);
    if (Number.isFinite(lo) && Number.isFinite(hi) && lo <= hi) this.player.limits("given", { lo, hi, colour: this.scale });
  }

  paintColours() {
    if (this.colourPanel.hidden) return;
    const { cmap, norm, vmin, vmax, rule } = this.player.colours[this.scale] ?? {};
    this.pick(this.cmap, cmap);
    this.pick(this.norm, norm);
    this.pick(this.reduce, this.player.reduce);
    attribute(this.inverted, "aria-pressed", String(cmap?.endsWith("_r") ?? false));
    const active = this.root.getRootNode().activeElement;
    for (const [input, value] of [[this.low, vmin], [this.high, vmax]]) {
      if (input !== active && input.valueAsNumber !== value) input.value = String(value);
    }
    say(this.rule, { sampled: "≈ from a sample", full: "from all frames", frame: "from one frame", attribute: "as the data says", given: "as given" }[rule] ?? "");
  }

  /** Show `value` in a select, adding it where it is not among the choices. */
  pick(select, value, text = value) {
    if (value === undefined || select.value === value) return;
    if (![...select.options].some((option) => option.value === value)) select.append(element("option", { value }, text));
    select.value = value;
  }

  buildHelp() {
    const rows = HELP.map(([keys, what]) => element("div", {}, element("kbd", {}, keys), element("span", {}, what)));
    this.help = element("div", { class: "br-help", role: "group", "aria-label": "Keys", hidden: true }, ...rows);
    return this.help;
  }

  // --- watching the page ---

  observe() {
    const { signal } = this.abort;
    this.resizer = new ResizeObserver(() => {
      const width = this.host.clientWidth;
      if (width > 0 && width !== this.width) this.relayout();
    });
    this.resizer.observe(this.host);
    this.watcher = new IntersectionObserver((entries) => {
      this.visible = entries.at(-1).isIntersecting;
      this.awake();
    });
    this.watcher.observe(this.root);
    this.themes = new MutationObserver(() => {
      this.applyTheme();
      clearTimeout(this.themeLater);
      this.themeLater = setTimeout(() => this.applyTheme(), 500); // style sheets may come later
    });
    const attributes = { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-theme", "theme", "style"] };
    this.themes.observe(document.body, attributes);
    this.themes.observe(document.documentElement, attributes);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.applyTheme(), { signal });
    document.addEventListener("visibilitychange", () => this.awake(), { signal });
    globalThis.addEventListener("resize", () => {
      const ratio = globalThis.devicePixelRatio || 1;
      if (ratio !== this.ratio) this.relayout();
    }, { signal });
  }

  /** Shown again, or hidden: canvases may have been emptied meanwhile. */
  awake() {
    if (!this.width) this.relayout();
    this.player.measure();
    this.player.want();
    this.player.stalePaint = true;
    this.player.refresh();
  }

  applyTheme() {
    // a host may hide everything while it changes its theme, and show it before anybody looks
    if (this.readTheme() || !this.width) this.relayout();
  }

  /** Whether colours or font have changed. An element outside the page has none to read yet. */
  readTheme() {
    flag(this.root, "theme", darkness(this.player.options.theme) ? "dark" : "light");
    if (!this.root.isConnected) return false;
    const read = inks(this.root);
    if (JSON.stringify(read) === JSON.stringify(this.inks)) return false;
    this.inks = read;
    return true;
  }

  dispose() {
    this.abort.abort();
    this.resizer.disconnect();
    this.watcher.disconnect();
    this.themes.disconnect();
    clearTimeout(this.themeLater);
    this.player.views.delete(this);
    this.root.remove();
    this.host.classList.remove("binref-player-host");
    this.player.measure();
    this.player.want();
  }

  // --- layout ---

  relayout() {
    const width = this.host.clientWidth;
    if (width === 0) {
      this.width = 0; // not laid out: to be done when there is room again
      return;
    }
    this.readTheme();
    if (!this.inks) return;
    if (this.player.scene.panels.length !== this.panels.length) this.buildPanels();
    this.width = width;
    this.ratio = globalThis.devicePixelRatio || 1;
    const narrow = width < 560;
    flag(this.root, "narrow", narrow ? "1" : "0");
    const style = getComputedStyle(this.root);
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) + 2;
    const inner = Math.max(200, Math.floor(width - padding));
    const plan = this.planStage(inner, narrow);
    this.panels.forEach((panel, k) => panel.place(plan.panels[k]));
    this.grid.style.gridTemplateColumns = `repeat(${plan.columns}, max-content)`;
    flag(this.stage, "bar", plan.vertical ? "beside" : "below");
    this.drawBars(plan);
    this.stageWidth = plan.width;
    this.root.style.maxWidth = `${Math.max(plan.width, Math.min(inner, 560)) + padding}px`;
    const [first] = plan.panels;
    this.margins = first?.margins ?? { left: 40, right: 8 };
    if (first) {
      this.monitor.style.left = `${first.margins.left + first.width - 8}px`;
      this.monitor.style.top = this.unzoom.style.top = `${first.margins.top + 8}px`;
      this.unzoom.style.left = `${first.margins.left + 8}px`;
    }
    this.barChanges = -1;
    this.drawSeries();
    this.lod = this.lodOf(plan);
    this.player.measure();
    this.player.stalePaint = true;
    this.player.refresh();
  }

  /** Sizes and places of panels and bars in `inner` pixels. */
  planStage(inner, narrow) {
    const { scene } = this.player;
    const count = Math.max(1, scene.panels.length);
    const vertical = !narrow;
    const measure = document.createElement("canvas").getContext("2d");
    measure.font = `${SMALL}px ${this.inks.font}`;
    const widest = (ticks) => Math.max(0, ...ticks.map(([, label]) => measure.measureText(label).width));
    const barWidths = this.barOf.map(({ colour: k }) => {
      const { ticks = [], label } = this.player.colours[k] ?? {};
      const words = Math.max(widest(ticks), 42); // room for "no data"
      return Math.ceil(14 + TICK + 3 + words + (label ? MEDIUM + 10 : 2));
    });
    const barsWidth = vertical ? barWidths.reduce((sum, bar) => sum + bar + 14, 0) : 0;
    const most = Math.max(1, Math.min(scene.columns || 1, count, Math.floor((inner - barsWidth) / 200)));
    const rows = Math.ceil(count / most);
    const columns = Math.ceil(count / rows);
    const [first] = scene.panels;
    const alike = (axis) => scene.panels.every((panel) => JSON.stringify(panel[axis]) === JSON.stringify(first?.[axis]));
    const [sharedX, sharedY] = [alike("x"), alike("y") && scene.kind !== "line"];
    const limit = this.player.options.height || (rows > 1 ? 300 : 480);
    const margins = scene.panels.map((panel, k) => {
      const showX = !sharedX || k + columns >= count;
      const showY = !sharedY || k % columns === 0;
      const { y, yTicks } = this.panels[k].scales(400, limit);
      const left = showY ? Math.ceil(widest(yTicks)) + TICK + 6 + (y ? MEDIUM + 8 : 0) : TICK + 6;
      const axis = showX ? TICK + 6 + SMALL + (panel.x.label ? MEDIUM + 8 : 2) : TICK + 8;
      const bottom = axis + (this.ownBars ? OWN_BAR : 0);
      return { showX, showY, left, right: 12, top: count > 1 ? 24 : 8, bottom };
    });
    // what the margins of the widest row leave
    let taken = 0;
    for (let row = 0; row < rows; row += 1) {
      const across = margins.slice(row * columns, (row + 1) * columns);
      taken = Math.max(taken, across.reduce((sum, { left, right }) => sum + left + right, 0));
    }
    const free = Math.max(80, Math.floor((inner - barsWidth - taken) / columns));
    const panels = scene.panels.map((panel, k) => {
      const { showX, showY, ...around } = margins[k];
      const own = scene.kind === "line" ? 2.2 : Math.min(3, Math.max(0.6, panel.columns / Math.max(1, panel.rows)));
      const aspect = panel.aspect || own;
      const width = Math.round(Math.min(free, limit * aspect));
      const height = Math.max(40, Math.round(width / aspect));
      const barHeight = this.ownBars ? OWN_BAR : 0;
      return { margins: around, width, height, showX, showY, barHeight, title: count > 1 ? panel.title : "" };
    });
    const across = panels.slice(0, columns);
    const panelsWidth = across.reduce((sum, { width, margins: m }) => sum + width + m.left + m.right, 0);
    return { panels, columns, rows, vertical, barWidths, width: Math.ceil(panelsWidth + barsWidth) };
  }

  drawBars({ panels, rows, vertical, barWidths, columns }) {
    if (panels.length === 0) return;
    const [{ margins, width, height }] = panels;
    this.barOf.forEach(({ colour: k, canvas }, order) => {
      const colours = this.scaleOf(k);
      const table = this.player.tables[k];
      if (!table) return;
      const bad = this.badSeen === true;
      const { inks: ink } = this;
      attribute(canvas, "aria-label", barLabel(colours));
      if (vertical) {
        const tall = this.tall({ panels, rows, columns });
        const room = barWidths[order];
        const box = { x: 1, y: margins.top, width: 14, height: tall };
        drawn(canvas, room, margins.top + tall + 26, this.ratio, (context) => {
          drawBar(context, box, { colours, table, vertical, bad, inks: ink });
        });
      } else {
        const wide = (width + margins.left + margins.right) * columns - margins.left - margins.right;
        const box = { x: margins.left, y: 6, width: Math.max(80, wide), height: 12 };
        drawn(canvas, wide + margins.left + margins.right, 58, this.ratio, (context) => {
          drawBar(context, box, { colours, table, vertical, bad, inks: ink });
        });
      }
    });
  }

  /** From the top of the first row of pictures to the bottom of the last. */
  tall({ panels, rows, columns }) {
    let sum = panels[0].height;
    for (let row = 1; row < rows; row += 1) {
      const above = panels.slice((row - 1) * columns, row * columns);
      const { margins, height } = panels[row * columns];
      sum += Math.max(...above.map((panel) => panel.margins.bottom)) + margins.top + height;
    }
    return sum;
  }

  lodOf({ panels }) {
    let least = Infinity;
    this.player.scene.panels.forEach(({ rows, columns }, k) => {
      const { width, height } = panels[k];
      const line = this.player.scene.kind === "line";
      const [l, , r] = this.player.window ?? WHOLE;
      const lod = line
        ? Math.max(1, Math.floor((columns * (r - l)) / (4 * width * this.ratio)))
        : lodOf(rows, columns, this.player.window, width, height, this.ratio);
      least = Math.min(least, lod);
    });
    return Number.isFinite(least) ? least : 1;
  }

  // --- keys ---

  get focused() {
    return this.root.getRootNode().activeElement === this.root;
  }

  key(event) {
    const name = commandOf(event);
    if (name === null) return;
    const { target } = event;
    if (target.matches("select, input[type='number']") && name !== "leave") return;
    if (target.matches("button") && event.key === " ") return; // presses the button
    if (target.matches(".br-sliders input") && !["play", "leave"].includes(name)) return;
    event.preventDefault();
    event.stopPropagation();
    this.command(name);
  }

  command(name) {
    const { player } = this;
    const run = {
      play: () => player.toggle(),
      back: () => player.step(-1),
      forward: () => player.step(1),
      back10: () => player.step(-10),
      forward10: () => player.step(10),
      first: () => player.seek(0),
      last: () => player.end(),
      faster: () => player.setting("fps", speedOf(player.fps, 1)),
      slower: () => player.setting("fps", speedOf(player.fps, -1)),
      loop: () => player.setting("loop", LOOPS[(LOOPS.indexOf(player.loop) + 1) % LOOPS.length]),
      reverse: () => player.setting("direction", -player.direction),
      mode: () => player.setting("mode", player.mode === "every" ? "realtime" : "every"),
      in: () => player.mark("in"),
      out: () => player.mark("out"),
      all: () => player.mark("all"),
      colour: () => player.can("colours") && player.nextColour(),
      norm: () => player.can("colours") && player.nextNorm(),
      auto: () => player.can("colours") && player.limits("sampled"),
      full: () => player.can("colours") && player.limits("full"),
      save: () => this.save(),
      telemetry: () => {
        player.telemetry = !player.telemetry;
        player.refresh();
      },
      unzoom: () => player.zoom(null),
      help: () => {
        show(this.help, this.help.hidden);
        attribute(this.helpButton, "aria-pressed", String(!this.help.hidden));
      },
      leave: () => this.leave(),
    }[name];
    run();
  }

  /** Close what is open; else give the focus back to the cell around. */
  leave() {
    if (this.panels.some((panel) => panel.cancel())) return;
    if (!this.help.hidden) {
      this.command("help");
      return;
    }
    if (!this.colourPanel.hidden) {
      this.openColours();
      this.root.focus({ preventScroll: true });
      return;
    }
    const active = this.root.getRootNode().activeElement;
    active?.blur();
    for (let node = this.host.parentElement; node; node = node.parentElement) {
      if (node.matches(".jp-Notebook, .jp-Cell[tabindex], [tabindex='0']")) {
        node.focus({ preventScroll: true });
        return;
      }
    }
  }

  // --- values under the pointer ---

  hover(panel, point) {
    if (panel === null) {
      this.pointer = null;
      say(this.readout, "");
      return;
    }
    this.pointer = { panel, ...point };
    this.answerHover();
  }

  answerHover() {
    const { pointer, player } = this;
    if (!pointer) return;
    const frame = player.shown;
    if (!frame) return;
    const { panel, fx, fy } = pointer;
    const scene = player.scene.panels[panel];
    const plain = !scene.x.ticks && !scene.y.ticks && player.scene.kind !== "line";
    const value = plain ? player.localValue(panel, fx, fy) : undefined;
    const unit = unitOf(player.colours[scene.colour]?.label);
    if (value !== undefined) {
      say(this.readout, `${this.place(scene, fx, fy)}   ${withUnit(format(value), unit)}`);
      pointer.asked = `${frame.i}`;
      return;
    }
    const key = `${frame.i}/${fx}/${fy}/${panel}/${player.ver}`;
    if (pointer.asked === key) return;
    const answered = (answer) => {
      if (this.pointer?.panel !== panel) return;
      const number = answer.value === null ? "no data" : withUnit(format(answer.value), unit);
      say(this.readout, `${answer.text ?? ""}   ${answer.about ? "≈ " : ""}${number}`);
      if (this.pointer.fx !== fx || this.pointer.fy !== fy) this.answerHover();
    };
    if (player.ask(panel, fx, fy, frame.i, answered)) pointer.asked = key;
  }

  /** Where a point lies, at the middle of its cell. */
  place({ x, y, rows, columns }, fx, fy) {
    const column = Math.floor(fx * columns);
    const row = Math.floor(fy * rows);
    const xValue = x.lo + ((column + 0.5) / columns) * (x.hi - x.lo);
    const yValue = y.hi - ((row + 0.5) / rows) * (y.hi - y.lo);
    const one = (axis, value) => `${axis.name} = ${withUnit(format(value, 5), unitOf(axis.label))}`;
    return `${one(x, xValue)}, ${one(y, yValue)}`;
  }

  // --- painting ---

  paint(frame, { stale, all }) {
    const { player } = this;
    if (!this.width) this.relayout();
    if (!this.width) return;
    if (player.colours !== this.seenColours || player.tables !== this.seenTables) {
      this.seenColours = player.colours;
      this.seenTables = player.tables;
      this.relayout();
      stale = true;
    }
    if (frame) {
      if (stale || frame !== this.frame) {
        for (const panel of this.panels) panel.paint(frame);
        this.frame = frame;
        this.describe(frame);
        if (this.pointer) this.answerHover();
      }
      const exact = frame.i === player.index && frame.ver === player.ver && player.exact(frame.i);
      flag(this.root, "shownIndex", String(frame.i));
      flag(this.root, "exact", exact ? "1" : "0");
      if (exact) flag(this.root, "ready", "1");
      flag(this.root, "dim", frame.i === player.index || player.playing ? "0" : "1");
    }
    this.paintPosition(frame);
    if (all) this.paintControls();
    this.paintCached();
    this.paintPlayhead();
  }

  /** What the picture says in words, and how much of it lies outside the limits. */
  describe(frame) {
    const { player } = this;
    let cells = 0;
    let outside = 0;
    let bad = 0;
    this.seeBeyond(frame);
    frame.stats?.forEach((stats, k) => {
      const [rows, columns] = frame.shapes[k];
      cells += rows * columns;
      outside += (stats.under ?? 0) + (stats.over ?? 0);
      bad += stats.bad ?? 0;
    });
    if (bad > 0 && !this.badSeen) {
      this.badSeen = true;
      this.relayout();
    }
    const words = [];
    const [only] = frame.stats ?? [];
    if (frame.stats?.length === 1 && only.lo !== null) {
      words.push(`${frame.lod > 1 ? "≈ " : ""}${format(only.lo, 4)} to ${format(only.hi, 4)}`);
    }
    if (outside > 0) words.push(`${percent(outside / cells)} outside the limits`);
    if (bad > 0) words.push(`${percent(bad / cells)} no data`);
    say(this.clipped, words.join(" · "));
    if (player.playing && now() - (this.described ?? 0) < 1000) return;
    this.described = now();
    this.panels.forEach((panel, k) => {
      const { title, x, y } = panel.scene;
      const stats = frame.stats?.[k];
      const range = stats && stats.lo !== null ? `, values from ${format(stats.lo)} to ${format(stats.hi)}` : "";
      const axes = player.scene.kind === "line" ? `over ${x.label}` : `over ${x.label} and ${y.label}`;
      const name = [player.scene.name, title].filter(Boolean).join(", ");
      attribute(panel.picture, "aria-label", `${name} ${axes} at ${frame.label ?? `step ${frame.i + 1}`}${range}`);
    });
  }

  /** Give the bar an arrow for what lies beyond the limits, once a frame has any. */
  seeBeyond(frame) {
    const { beyond, scene } = this.player;
    let more = false;
    frame.stats?.forEach(({ under, over }, k) => {
      const seen = (beyond[scene.panels[k]?.colour ?? 0] ??= { min: false, max: false });
      more ||= (under > 0 && !seen.min) || (over > 0 && !seen.max);
      seen.min ||= under > 0;
      seen.max ||= over > 0;
    });
    if (more) this.relayout();
  }

  /** A colour scale as its bar is drawn: with arrows too for what has been seen beyond. */
  scaleOf(k) {
    const { player } = this;
    const colours = player.colours[k] ?? {};
    const seen = player.beyond[k];
    if (!seen || colours.extend_given) return colours;
    const [min, max] = ["min", "max"].map((end) => seen[end] || colours.extend === end || colours.extend === "both");
    return { ...colours, extend: min ? (max ? "both" : "min") : max ? "max" : "neither" };
  }

  /** What changes with every frame. */
  paintPosition(frame) {
    const { player } = this;
    const { index, n } = player;
    flag(this.root, "index", String(index));
    flag(this.root, "playing", player.playing ? "1" : "0");
    const time = now();
    // words and slider make the host lay out its page again: as often as can be read
    if (player.playing && time - (this.worded ?? 0) < WORDS_MS) return;
    this.worded = time;
    const label = player.labels.get(index);
    say(this.timeLabel, label ?? frame?.label ?? "");
    const part = player.part.length === 2 ? ` (${player.part[0] + 1} to ${player.part[1] + 1})` : "";
    say(this.position, n > 0 ? `${index + 1} / ${n}${part}` : "no steps yet");
    const most = String(Math.max(0, n - 1));
    if (this.slider.max !== most) this.slider.max = most;
    const at = String(index);
    if (this.slider.value !== at) this.slider.value = at;
    if (!player.playing || time - (this.spokenAt ?? 0) > 500) {
      this.spokenAt = time;
      attribute(this.slider, "aria-valuetext", spoken(index, n, label ?? ""));
    }
    const note = player.failed.get(index) ?? player.error ?? "";
    for (const panel of this.panels) {
      say(panel.note, note);
      show(panel.note, note !== "");
    }
  }

  /** What changes when somebody does something. */
  paintControls() {
    const { player } = this;
    const { scene } = player;
    say(this.title, [scene.name, scene.title].filter(Boolean).join("   "));
    setIcon(this.playButton.firstChild, player.playing ? "pause" : "play");
    this.name(this.playButton, player.playing ? "Pause" : "Play");
    const slow = player.playing ? player.painted.perSecond(now()) : 0;
    const achieved = slow > 0 && slow < 0.85 * Math.min(player.fps, 60) / (player.mode === "every" ? 1 : player.skip);
    say(this.speed, `${format(player.fps, 4)} fps`);
    this.name(this.speed, achieved ? `Speed; ${Math.round(slow)} frames a second are reached` : "Speed");
    flag(this.speed, "slow", achieved ? `${Math.round(slow)} reached` : "");
    setIcon(this.loopButton.firstChild, player.loop);
    this.name(this.loopButton, { loop: "Loop", bounce: "Back and forth", once: "Once" }[player.loop] + " (L)");
    attribute(this.reverseButton, "aria-pressed", String(player.direction < 0));
    attribute(this.gauge, "aria-pressed", String(player.telemetry));
    this.pick(this.mode, player.mode, MODES[player.mode]);
    this.paintPart();
    const { pace } = player.scene;
    say(this.simulated, pace ? simulated(player.fps * player.stride * pace.step, pace.unit) : "");
    this.pick(this.strideSelect, String(player.stride), `every ${player.stride}th`);
    this.paintColours();
    this.sliders.forEach(({ slider, input, value }, k) => {
      const position = player.positions[k] ?? 0;
      if (input.value !== String(position)) input.value = String(position);
      const text = slider.values?.[position] ?? String(position);
      say(value, text);
      attribute(input, "aria-valuetext", `${slider.label || slider.dim}: ${text}`);
    });
    this.paintPills();
    show(this.unzoom, player.window !== null);
    if (player.telemetry) this.paintMonitor();
    show(this.monitor, player.telemetry);
    this.paintPins();
  }

  /** The part that is played: its place on the timeline, and what the button for it does next. */
  paintPart() {
    const { player } = this;
    const { part, n } = player;
    show(this.partMark, part.length === 2);
    attribute(this.partButton, "aria-pressed", String(part.length === 2));
    if (part.length !== 2) {
      this.name(this.partButton, "Play only a part: from here on ([)");
      return;
    }
    const [first, last] = part;
    const open = last === n - 1 && player.index > first;
    this.name(this.partButton, open ? "Play only up to here (])" : "Play all steps again (X)");
    const share = (i) => Math.min(1, Math.max(0, i / Math.max(1, n - 1)));
    this.partMark.style.left = `calc(${THUMB / 2}px + (100% - ${THUMB}px) * ${share(first)})`;
    this.partMark.style.right = `calc(${THUMB / 2}px + (100% - ${THUMB}px) * ${1 - share(last)})`;
  }

  name(node, label) {
    attribute(node, "aria-label", label);
    attribute(node, "title", label);
  }

  paintPills() {
    const { player } = this;
    const { live, status } = player;
    const missing = player.gone ? "kernel gone" : "kernel busy";
    say(this.badge, player.busy ? missing : player.fallback ? "text transport" : "");
    show(this.badge, this.badge.textContent !== "");
    attribute(this.badge, "title", player.gone ? GONE : "");
    flag(this.root, "busy", player.busy ? "1" : "0");
    flag(this.root, "kernel", player.gone ? "gone" : player.busy ? "busy" : "there");
    const share = typeof status.fraction === "number" ? ` ${Math.floor(status.fraction * 100)} %` : "";
    say(this.work, status.text ? `${status.text}${share}` : "");
    show(this.work, Boolean(status.text));
    show(this.stop, Boolean(status.text));
    const writing = live.state === "writing";
    show(this.pill, Boolean(live.state));
    if (!live.state) return;
    const total = live.total ? ` of ${live.total}` : "";
    const rate = writing && live.rate ? ` · ${format(live.rate, 2)}/s` : "";
    say(this.pill, writing ? `LIVE  ${player.n}${total}${rate}` : live.state);
    flag(this.pill, "state", writing ? (player.attached ? "attached" : "detached") : live.state);
    attribute(this.pill, "title", writing && !player.attached ? "Follow the run again (End)" : `The run is ${live.state}`);
  }

  paintCached() {
    const { player } = this;
    const time = now();
    const key = `${player.cache.changes}/${player.n}/${player.lod}/${player.ver}`;
    const pause = this.barChanges === -1 ? 0 : player.playing ? 500 : 100;
    if (this.barChanges === key || time - (this.barTime ?? 0) < pause) return;
    this.barChanges = key;
    this.barTime = time;
    const width = this.slider.clientWidth;
    if (width <= THUMB) return;
    const context = prepare(this.cachedBar, width, 6, this.ratio);
    const inner = width - THUMB;
    context.fillStyle = this.inks.track;
    context.beginPath();
    context.roundRect(THUMB / 2 - 3, 0, inner + 6, 6, 3);
    context.fill();
    context.clip();
    context.fillStyle = this.inks.cached;
    const n = player.n;
    if (n === 0) return;
    const share = coverage(player.cache.indices(player.playView.id), n, Math.ceil(inner));
    for (let cell = 0; cell < share.length; cell += 1) {
      if (share[cell] === 0) continue;
      context.globalAlpha = 0.35 + 0.65 * Math.min(1, share[cell]);
      const edge = cell === 0 ? 3 : 0;
      context.fillRect(THUMB / 2 + cell - edge, 0, 1 + edge + (cell === share.length - 1 ? 3 : 0), 6);
    }
    context.globalAlpha = 1;
  }

  paintMonitor() {
    const { player } = this;
    const stats = player.stats();
    const { read, enc } = player.counts;
    const hits = stats.hits === null ? "–" : `${Math.round(stats.hits * 100)} %`;
    const megabytes = (player.cache.bytes / 1e6).toFixed(1);
    say(
      this.monitor,
      [
        `shown    ${player.playing ? `${stats.fps.toFixed(1)} /s` : "–"}`,
        `gap 95 % ${player.playing ? `${stats.gap_p95_ms.toFixed(0)} ms` : "–"}`,
        `dropped  ${stats.dropped}`,
        `cache    ${hits} of ${megabytes} MB`,
        `trip     ${stats.rtt_ms.toFixed(0)} ms`,
        `flying   ${stats.in_flight}`,
        `read     ${Number(read).toFixed(1)} ms`,
        `encode   ${Number(enc).toFixed(1)} ms`,
        `paint    ${stats.paint_ms.toFixed(1)} ms`,
        `detail   1:${player.lod}${player.lod > 1 ? ` ${player.reduce}` : ""}`,
      ].join("\n"),
    );
  }

  // --- pinned points ---

  paintPins() {
    const { player } = this;
    const key = [...player.pins.values()].map((pin) => `${pin.id}/${pin.text}/${pin.done}`).join();
    if (key === this.pinned) return;
    const before = this.series.hidden;
    this.pinned = key;
    show(this.series, player.pins.size > 0);
    this.chips.replaceChildren(
      ...[...player.pins.values()].map((pin) => {
        const dot = element("span", { class: "br-dot" });
        dot.style.background = this.inks.curves[pin.hue % this.inks.curves.length];
        const text = pin.text || "reading …";
        const progress = pin.done > 0 && pin.done < 1 ? ` ${Math.floor(pin.done * 100)} %` : "";
        const remove = this.button("unpin", `Remove the pin at ${text}`, () => player.unpin(pin.id), { text: "×" });
        return element("span", { class: "br-chip" }, dot, `${text}${progress}`, remove);
      }),
    );
    for (const panel of this.panels) if (panel.size) panel.drawPins();
    if (before !== this.series.hidden || !this.series.hidden) this.drawSeries();
  }

  /** The x of the chart: the times that came with the series, else the step numbers. */
  seriesRange() {
    for (const pin of this.player.pins.values()) {
      const { times } = pin;
      if (times?.length > 1 && times[0] !== times.at(-1)) return { times: pin, lo: times[0], hi: times.at(-1) };
    }
    return { times: null, lo: 0, hi: Math.max(1, this.player.n - 1) };
  }

  /** The step at a share of the chart's width. */
  stepAt(share) {
    const { times: pin, lo, hi } = this.seriesRange();
    const x = lo + share * (hi - lo);
    if (!pin) return Math.round(x);
    let best = 0;
    pin.times.forEach((time, k) => {
      if (Math.abs(time - x) < Math.abs(pin.times[best] - x)) best = k;
    });
    return pin.steps[best];
  }

  /** The share of the chart's width at a step. */
  shareAt(step) {
    const { times: pin, lo, hi } = this.seriesRange();
    if (!pin) return (step - lo) / (hi - lo);
    const { steps, times } = pin;
    let after = 0;
    while (after < steps.length - 1 && steps[after] < step) after += 1;
    const before = Math.max(0, after - 1);
    const part = steps[after] === steps[before] ? 0 : (step - steps[before]) / (steps[after] - steps[before]);
    return (times[before] + part * (times[after] - times[before]) - lo) / (hi - lo);
  }

  drawSeries() {
    const { player } = this;
    if (player.pins.size === 0 || !this.stageWidth) return;
    const width = Math.min(this.stageWidth, this.width);
    const height = 150;
    const left = Math.max(this.chartMargin ?? 0, this.margins.left);
    const box = { x: left, y: 8, width: Math.max(60, width - left - 14), height: height - 8 - 38 };
    this.chartBox = box;
    const context = prepare(this.chart, width, height, this.ratio);
    const pins = [...player.pins.values()];
    let low = Infinity;
    let high = -Infinity;
    for (const { values } of pins) {
      for (const value of values) {
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) [low, high] = [0, 1];
    const margin = (high - low || Math.abs(high) || 1) * 0.06;
    const { times, lo, hi } = this.seriesRange();
    const label = pins.find((pin) => pin.unit)?.unit ?? "";
    const yTicks = ticksOf(low - margin, high + margin, 4);
    context.font = `${SMALL}px ${this.inks.font}`;
    const words = Math.max(0, ...yTicks.map(([, text]) => context.measureText(text).width));
    const needed = Math.ceil(words) + TICK + 6 + (label ? MEDIUM + 8 : 0);
    if (needed > left) {
      this.chartMargin = needed + 8;
      this.drawSeries();
      return;
    }
    drawAxes(context, box, {
      x: times?.xlabel ?? player.scene.dim,
      y: label,
      showX: true,
      showY: true,
      xTicks: ticksOf(lo, hi, box.width / 90),
      yTicks,
      inks: this.inks,
    });
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.width, box.height);
    context.clip();
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    for (const pin of pins) {
      context.strokeStyle = this.inks.curves[pin.hue % this.inks.curves.length];
      const { steps, values } = pin;
      const at = times && pin.times ? pin.times : steps;
      const xs = (k) => box.x + ((at[k] - lo) / (hi - lo)) * box.width;
      const ys = (k) => box.y + (1 - (values[k] - low + margin) / (high - low + 2 * margin)) * box.height;
      drawCurve(context, values.length, xs, ys, Math.round(box.width * this.ratio));
    }
    context.restore();
    const where = pins.map((pin) => pin.text).filter(Boolean).join("; ");
    attribute(this.chart, "aria-label", `Time series of ${pins.length} pinned points: ${where}`);
    this.paintPlayhead();
  }

  paintPlayhead() {
    if (this.series.hidden || !this.chartBox) return;
    const { x, y, width, height } = this.chartBox;
    const share = Math.min(1, Math.max(0, this.shareAt(this.player.index)));
    this.playhead.style.transform = `translateX(${(x + share * width).toFixed(1)}px)`;
    this.playhead.style.top = `${y}px`;
    this.playhead.style.height = `${height}px`;
  }

  // --- saving ---

  /** What is on the stage, with title and time, as one canvas at twice the resolution. */
  snapshot() {
    const scale = 2;
    const pad = 16;
    const stage = this.stage.getBoundingClientRect();
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil((stage.width + 2 * pad) * scale);
    canvas.height = Math.ceil((stage.height + 2 * pad + 28) * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = this.inks.ground;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = this.inks.text;
    context.font = `600 14px ${this.inks.font}`;
    context.fillText([this.title.textContent, this.player.shown?.label].filter(Boolean).join("   "), pad, pad + 12);
    context.translate(pad - stage.left, pad + 28 - stage.top);
    for (const { box, picture, axes, bar, line } of this.panels) {
      const frame = box.getBoundingClientRect();
      context.save();
      context.beginPath();
      context.rect(frame.left, frame.top, frame.width, frame.height);
      context.clip();
      context.imageSmoothingEnabled = line || picture.dataset.shrunk === "1";
      this.put(context, picture);
      context.restore();
      context.imageSmoothingEnabled = true;
      this.put(context, axes);
      if (!bar.hidden) this.put(context, bar);
    }
    for (const { canvas: bar } of this.barOf) this.put(context, bar);
    return canvas;
  }

  put(context, canvas) {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    if (width > 0 && height > 0) context.drawImage(canvas, left, top, width, height);
  }

  save() {
    const { scene, index } = this.player;
    this.snapshot().toBlob((blob) => {
      const address = URL.createObjectURL(blob);
      element("a", { href: address, download: `${scene.name || "frame"}-${index}.png` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    }, "image/png");
  }
}

export function barLabel({ label = "", vmin, vmax }) {
  return `Colour bar: ${label} from ${format(vmin)} to ${format(vmax)}`;
}

function withUnit(text, unit) {
  return unit && text !== "no data" ? `${text} ${unit}` : text;
}

/** Called once a model; the state lives as long as the model does. */
const widget = () => {
  let player;
  return {
    initialize({ model }) {
      player = new Player(model);
      return () => player.dispose();
    },
    render({ el }) {
      const view = new View(player, el);
      return () => view.dispose();
    },
  };
};

export default widget;
