// Sources of frames for the player's tests and benchmarks: fields known in closed form.

const ANCHORS = [
  [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141],
  [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37],
];

/** A table like the kernel's: bad grey, under dark blue, 253 colours, over orange. */
export function table() {
  const bytes = new Uint8Array(1024);
  const put = (code, [r, g, b], alpha = 255) => bytes.set([r, g, b, alpha], code * 4);
  put(0, [0, 0, 0], 0);
  put(1, [30, 0, 120]);
  put(255, [255, 120, 40]);
  for (let code = 2; code <= 254; code += 1) {
    const at = ((code - 2) / 252) * 8;
    const low = Math.min(7, Math.floor(at));
    const mix = (k) => Math.round(ANCHORS[low][k] + (at - low) * (ANCHORS[low + 1][k] - ANCHORS[low][k]));
    put(code, [mix(0), mix(1), mix(2)]);
  }
  return bytes;
}

const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const label = (i) => `t = ${(i * 0.25).toFixed(2).padStart(6, "\u2007")} s`;

function traitsOf(panels, n, more = {}) {
  const scene = { dim: "time", n, kind: "image", name: "temperature", panels, columns: panels.length, sliders: [], title: "" };
  return {
    scene: { ...scene, ...more.scene },
    n,
    ver: 0,
    index: 0,
    playing: false,
    fps: 20,
    mode: "every",
    loop: "loop",
    direction: 1,
    stride: 1,
    positions: [],
    pinned: [],
    live: {},
    status: {},
    luts: view(table()),
    colours: [
      {
        vmin: 280, vmax: 300, label: "temperature [K]", extend: "both", norm: "linear", rule: "sampled", about: true,
        cmap: "viridis", ticks: [[0, "280"], [0.25, "285"], [0.5, "290"], [0.75, "295"], [1, "300"]],
      },
    ],
    options: {},
    ...more.traits,
  };
}

const AXES = {
  x: { label: "x [m]", name: "x", lo: 0, hi: 4, ticks: null },
  y: { label: "y [m]", name: "y", lo: 0, hi: 4, ticks: null },
};

const panelOf = (rows, columns, more = {}) => ({ title: "", rows, columns, colour: 0, aspect: null, ...AXES, ...more });

/** The cells of a view: every lod-th of the window. */
function cut(rows, columns, { window, lod }) {
  const [left, right, top, bottom] = window ?? [0, 1, 0, 1];
  const rowStart = Math.floor(top * rows);
  const columnStart = Math.floor(left * columns);
  const rowStop = Math.max(rowStart + 1, Math.ceil(bottom * rows));
  const columnStop = Math.max(columnStart + 1, Math.ceil(right * columns));
  return {
    rowStart, columnStart, lod,
    shape: [Math.ceil((rowStop - rowStart) / lod), Math.ceil((columnStop - columnStart) / lod)],
    window: [columnStart / columns, columnStop / columns, rowStart / rows, rowStop / rows],
  };
}

/** A source whose code at (i, panel, row, column) is `codeOf`. */
function images(panels, n, codeOf, valueOf) {
  const asked = [];
  const frame = (i, wanted, fmt) => {
    asked.push({ i, ...wanted, fmt });
    if (i < 0 || i >= n) throw new Error(`step ${i} is not there`);
    const cuts = panels.map(({ rows, columns }) => cut(rows, columns, wanted));
    const buffers = cuts.map(({ rowStart, columnStart, lod, shape }, panel) => {
      const [rows, columns] = shape;
      const floats = fmt === "f32";
      const cells = floats ? new Float32Array(rows * columns) : new Uint8Array(rows * columns);
      const cell = floats ? valueOf : codeOf;
      for (let r = 0, k = 0; r < rows; r += 1) {
        for (let c = 0; c < columns; c += 1, k += 1) cells[k] = cell(i, panel, rowStart + r * lod, columnStart + c * lod);
      }
      return new Uint8Array(cells.buffer);
    });
    const stats = buffers.map((codes) => {
      if (fmt === "f32") return { bad: 0, under: 0, over: 0, lo: 0, hi: 1 };
      let [bad, under, over] = [0, 0, 0];
      for (const code of codes) {
        bad += code === 0;
        under += code === 1;
        over += code === 255;
      }
      return { bad, under, over, lo: 280.5, hi: 299.5 };
    });
    const item = {
      label: label(i), t: i * 0.25, window: cuts[0].window, lod: wanted.lod, shapes: cuts.map(({ shape }) => shape), stats,
    };
    return { item, buffers };
  };
  const value = (i, panel, fx, fy) => {
    const { rows, columns } = panels[panel];
    const [r, c] = [Math.floor(fy * rows), Math.floor(fx * columns)];
    return { value: valueOf(i, panel, r, c), text: `row ${r}, column ${c}`, cell: [r, c] };
  };
  const series = ({ id, panel, fx, fy }, model) => {
    const { rows, columns } = panels[panel];
    const [r, c] = [Math.floor(fy * rows), Math.floor(fx * columns)];
    for (const stride of [8, 1]) {
      const steps = Float64Array.from({ length: Math.ceil(n / stride) }, (_, k) => k * stride);
      const values = steps.map((i) => valueOf(i, panel, r, c));
      const times = steps.map((i) => i * 0.25);
      const text = `x = ${((c + 0.5) * 4) / columns} m, y = ${4 - ((r + 0.5) * 4) / rows} m`;
      model.deliver({ type: "series", id, panel, text, done: 1 / stride, unit: "temperature [K]", xlabel: "time [s]" }, [steps, values, times]);
    }
  };
  return { frame, value, series, asked };
}

/** Code 2 + (column + step) % 253, and a known column for bad, under, over. */
function ramp([rows = 8, columns = 253, n = 40, times = null] = []) {
  const codeOf = (i, panel, r, c) => {
    if (r === 0) return [0, 1, 255][Math.floor((c * 3) / columns)];
    return 2 + ((c + i + 50 * panel) % 253);
  };
  const valueOf = (i, panel, r, c) => i * 1e6 + r * 1000 + c;
  const panels = [panelOf(rows, columns, { aspect: 1 })];
  const source = images(panels, n, codeOf, valueOf);
  if (!times) return { source, traits: traitsOf(panels, n) };
  const step = (times.at(-1) - times[0]) / (times.length - 1);
  const even = times.every((time, k) => Math.abs(time - times[0] - k * step) < 0.01 * step);
  source.message = ({ type, from }, model) => {
    if (type === "times") model.deliver({ type, from }, [Float64Array.from(times.slice(from))]);
  };
  return { source, traits: traitsOf(panels, n, { scene: { pace: { clock: "s", unit: "s", step, even } } }) };
}

/** Vortices carried along: something to look at. */
function flow([rows = 256, columns = 256, n = 600, count = 1] = []) {
  const valueOf = (i, panel, r, c) => {
    const x = (c / columns) * 4;
    const y = (1 - r / rows) * 4;
    const t = i * 0.04;
    if (panel === 0 && (x - 3) ** 2 + (y - 1) ** 2 < 0.12) return NaN;
    const wave = Math.sin(2.2 * x + Math.cos(1.7 * y + t) * 1.8 - t) * Math.cos(1.6 * y - 0.6 * t + Math.sin(x + panel));
    return 290 + 8 * wave + 3.5 * Math.exp(-((x - 2 - Math.cos(t)) ** 2 + (y - 2 - Math.sin(t)) ** 2) * 3);
  };
  const codeOf = (i, panel, r, c) => {
    const value = valueOf(i, panel, r, c);
    if (Number.isNaN(value)) return 0;
    if (value < 282) return 1;
    if (value > 299) return 255;
    return 2 + Math.round(((value - 282) / 17) * 252);
  };
  const panels = Array.from({ length: count }, (_, k) => panelOf(rows, columns, { title: count > 1 ? `level = ${1000 - 150 * k} hPa` : "" }));
  return { source: images(panels, n, codeOf, valueOf), traits: traitsOf(panels, n) };
}

/** Two variables, each with a colour scale of its own. */
function pair(size = [96, 96, 60]) {
  const made = flow([...size, 2]);
  const [first, second] = made.traits.scene.panels;
  Object.assign(first, { title: "temperature" });
  Object.assign(second, { title: "pressure", colour: 1 });
  const pressure = { ...made.traits.colours[0], label: "pressure [Pa]", about: false, extend: "neither", ticks: [[0, "10⁻¹"], [0.5, "1"], [1, "10"]] };
  made.traits.colours.push(pressure);
  const both = new Uint8Array(2048);
  both.set(table());
  for (let code = 0; code < 256; code += 1) both.set([code, code, code, 255], 1024 + 4 * code);
  made.traits.luts = view(both);
  return made;
}

/** Bytes that cost nothing to make: for rates. */
function plain([rows = 512, columns = 512, n = 120] = []) {
  const ready = Array.from({ length: 4 }, (_, k) => new Uint8Array(rows * columns).map((_, at) => 2 + ((at + 61 * k) % 253)));
  const panels = [panelOf(rows, columns)];
  const stats = [{ bad: 0, under: 0, over: 0, lo: 280, hi: 300 }];
  const frame = (i, { window, lod }) => ({
    item: { label: label(i), t: i * 0.25, window: window ?? [0, 1, 0, 1], lod, shapes: [[rows, columns]], stats },
    buffers: [ready[i % 4].slice()],
  });
  return { source: { frame }, traits: traitsOf(panels, n) };
}

/** Two curves, one with a gap. */
function lines([points = 400, n = 200] = []) {
  const x = Float64Array.from({ length: points }, (_, k) => (k / (points - 1)) * 10);
  const frame = (i) => {
    const values = new Float32Array(2 * points);
    x.forEach((at, k) => {
      values[k] = Math.sin(at - i * 0.1);
      values[points + k] = at > 4 && at < 4.6 ? NaN : 0.6 * Math.cos(2 * at + i * 0.07);
    });
    const stats = [{ bad: 0, under: 0, over: 0, lo: -1, hi: 1 }];
    return { item: { label: label(i), t: i, window: [0, 1, 0, 1], lod: 1, shapes: [[2, points]], stats }, buffers: [new Uint8Array(values.buffer)] };
  };
  const panels = [{ ...panelOf(2, points), x: { label: "x [m]", name: "x", lo: 0, hi: 10, ticks: null }, y: { label: "pressure [Pa]", name: "p" }, lines: ["u", "v"] }];
  const traits = traitsOf(panels, n, { scene: { kind: "line", name: "pressure" } });
  traits.colours = [{ vmin: -1, vmax: 1, label: "pressure [Pa]", extend: "neither", ticks: [], norm: "linear", rule: "sampled", about: true }];
  return { source: { frame, coords: () => [x] }, traits };
}

export const sources = { ramp, flow, pair, plain, lines };
