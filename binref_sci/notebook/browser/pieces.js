// --- DOM: pieces ---------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  play: "M5 3.2v9.6a.6.6 0 0 0 .92.5l7.4-4.8a.6.6 0 0 0 0-1L5.92 2.7A.6.6 0 0 0 5 3.2z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  back: "M10.5 3.2v9.6L3.8 8zM11.5 3h1.6v10h-1.6z",
  forward: "M5.5 3.2v9.6L12.2 8zM2.9 3h1.6v10H2.9z",
  first: "M13 3.2v9.6L7 8zM7.6 3.2v9.6L1.6 8zM1 3h1.4v10H1z",
  last: "M3 3.2v9.6L9 8zM8.4 3.2v9.6L14.4 8zM13.6 3H15v10h-1.4z",
  loop: "M12.6 6.2A5 5 0 0 0 3.6 5.4L2.4 4.2V8h3.8L4.7 6.5a3.4 3.4 0 0 1 6.3.3zM3.4 9.8a5 5 0 0 0 9 .8l1.2 1.2V8H9.8l1.5 1.5a3.4 3.4 0 0 1-6.3-.3z",
  bounce: "M1 8l3.6-3.4v2.5h6.8V4.6L15 8l-3.6 3.4V8.9H4.6v2.5z",
  once: "M1.5 7.1h7.4V4.6L12.5 8l-3.6 3.4V8.9H1.5zM13 3.6h1.5v8.8H13z",
  part: "M2 3h4v1.5H3.6v7H6V13H2zM14 3h-4v1.5h2.4v7H10V13h4zM6.6 5.4v5.2L11 8z",
  reverse: "M14.5 7.1H6.6V4.2L1.5 8l5.1 3.8V8.9h7.9z",
  gauge: "M2 13V9h2.2v4zM6.9 13V3h2.2v10zM11.8 13V6H14v7z",
  save: "M7.2 2h1.6v6l2.2-2.2 1.1 1.1L8 11 3.9 6.9 5 5.8 7.2 8zM2.5 12.4h11V14h-11z",
  help: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zm0 1.4a5.1 5.1 0 1 1 0 10.2A5.1 5.1 0 0 1 8 2.9zm-.8 7.7h1.6v1.5H7.2zM8 4.2c-1.5 0-2.5.9-2.6 2.3h1.5c.1-.6.5-1 1.1-1s1 .4 1 .9c0 .9-1.8 1-1.8 2.8v.5h1.5v-.3c0-1.1 1.9-1.3 1.9-3.1 0-1.2-1-2.1-2.6-2.1z",
  palette: "M8 1.8a6.2 6.2 0 0 0 0 12.4c1 0 1.5-.7 1.5-1.4 0-.9-.7-1.1-.7-1.8 0-.6.5-1 1.2-1h1.3a2.9 2.9 0 0 0 2.9-2.9C14.2 4.1 11.4 1.8 8 1.8zM4.6 9a1 1 0 1 1 0-2 1 1 0 0 1 0 2zm1.8-3a1 1 0 1 1 0-2 1 1 0 0 1 0 2zm3.4 0a1 1 0 1 1 0-2 1 1 0 0 1 0 2z",
};

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "path"));
  setIcon(svg, name);
  return svg;
}

export function setIcon(svg, name) {
  if (svg.dataset.icon === name) return;
  svg.dataset.icon = name;
  svg.firstChild.setAttribute("d", ICONS[name]);
}

/** Set text only where it changes: no layout for nothing. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function attribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export function flag(node, name, value) {
  if (node.dataset[name] !== value) node.dataset[name] = value;
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/** A drawing context of `canvas`, made as large as `width` x `height` CSS pixels need; empty. */
function sheetOf(canvas, width, height, ratio) {
  const across = Math.max(1, Math.round(width * ratio));
  const down = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A canvas of `width` x `height` CSS pixels at the resolution of the display; its context. */
export function prepare(canvas, width, height, ratio) {
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  return sheetOf(canvas, width, height, ratio);
}

/**
 * Draw what changes seldom. A canvas that was drawn on is copied anew with each frame of the page;
 * one that was given a picture is not.
 */
export function drawn(canvas, width, height, ratio, draw) {
  if (!globalThis.OffscreenCanvas) {
    draw(prepare(canvas, width, height, ratio));
    return;
  }
  const sheet = new OffscreenCanvas(1, 1);
  draw(sheetOf(sheet, width, height, ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = sheet.width;
  canvas.height = sheet.height;
  canvas.getContext("bitmaprenderer").transferFromImageBitmap(sheet.transferToImageBitmap());
}

const CURVES = {
  light: ["#0b62b8", "#c2410c", "#0f766e", "#9d2f7f", "#7a5c00", "#4a4a9c", "#b3261e", "#3f6212"],
  dark: ["#6cb2ff", "#ff9d5c", "#4fd1c0", "#f08bd0", "#e3c04a", "#a9a6ff", "#ff8a80", "#b5d96a"],
};

/** Light or dark: what the host says, else what the system prefers. */
export function darkness(theme) {
  if (theme === "dark" || theme === "light") return theme === "dark";
  const { body, documentElement: root } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
  if (body.classList.contains("vscode-dark") || body.classList.contains("vscode-high-contrast")) return true;
  if (body.classList.contains("vscode-light")) return false;
  const named = root.dataset.theme ?? root.getAttribute("theme");
  if (named === "dark" || named === "light") return named === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** What the drawings on canvases take from the style sheet. */
export function inks(root) {
  const style = getComputedStyle(root);
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    text: read("--br-text"),
    muted: read("--br-muted"),
    line: read("--br-line"),
    accent: read("--br-accent"),
    ground: read("--br-ground"),
    track: read("--br-track"),
    cached: read("--br-cached"),
    font: style.fontFamily,
    curves: CURVES[root.dataset.theme] ?? CURVES.light,
  };
}

