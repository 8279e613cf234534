// What drawings take from the page.

import { flag } from "./dom.js";

const CURVES = {
  light: ["#0b62b8", "#c2410c", "#0f766e", "#9d2f7f", "#7a5c00", "#4a4a9c", "#b3261e", "#3f6212"],
  dark: ["#6cb2ff", "#ff9d5c", "#4fd1c0", "#f08bd0", "#e3c04a", "#a9a6ff", "#ff8a80", "#b5d96a"],
};

/** Light or dark: what the host says, else what the system prefers. */
function darkness(theme) {
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
function readInks(root) {
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

/** The colours and the resolution that a display is drawn with. */
export class Paper {
  #root;
  #theme;
  #later;

  inks = null; // an element outside the page has none yet
  ratio = globalThis.devicePixelRatio || 1;

  /** `theme` is what the host says: "dark", "light" or "auto". */
  constructor(root, theme) {
    this.#root = root;
    this.#theme = theme;
  }

  curve(k) {
    const { curves } = this.inks;
    return curves[k % curves.length];
  }

  /** Whether colours or font have changed. */
  read() {
    flag(this.#root, "theme", darkness(this.#theme) ? "dark" : "light");
    if (!this.#root.isConnected) return false;
    const read = readInks(this.#root);
    if (JSON.stringify(read) === JSON.stringify(this.inks)) return false;
    this.inks = read;
    return true;
  }

  /** Whether the page is shown at another resolution than before. */
  measure() {
    const ratio = globalThis.devicePixelRatio || 1;
    const other = ratio !== this.ratio;
    this.ratio = ratio;
    return other;
  }

  /** Call `changed` whenever the theme may be another, until `signal`. */
  watch(changed, signal) {
    const observer = new MutationObserver(() => {
      changed();
      clearTimeout(this.#later);
      this.#later = setTimeout(changed, 500); // style sheets may come later
    });
    const attributes = { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-theme", "theme", "style"] };
    observer.observe(document.body, attributes);
    observer.observe(document.documentElement, attributes);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => changed(), { signal });
    signal.addEventListener("abort", () => {
      observer.disconnect();
      clearTimeout(this.#later);
    });
  }
}
