// Elements of the page.

import { icon } from "./icons.js";

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

/** Name a node for those who hear it and for those who point at it. */
export function entitle(node, label) {
  attribute(node, "aria-label", label);
  attribute(node, "title", label);
}

/** A button with a picture, or with words; `toggle`: it stays pressed. */
export function button(name, label, action, { text = "", toggle = false, picture = name } = {}) {
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

export function press(made, pressed) {
  attribute(made, "aria-pressed", String(pressed));
}

/** A choice among [value, text] pairs. */
export function select(name, label, choices, action) {
  const made = element("select", { class: "br-select", "data-name": name, "aria-label": label, title: label });
  for (const [value, text] of choices) made.append(element("option", { value }, text));
  made.addEventListener("change", () => action(made.value));
  return made;
}

/** Show `value` in a select, adding it where it is not among the choices. */
export function pick(made, value, text = value) {
  if (value === undefined || made.value === value) return;
  if (![...made.options].some((option) => option.value === value)) made.append(element("option", { value }, text));
  made.value = value;
}

export function group(label, ...children) {
  return element("div", { class: "br-group", role: "group", "aria-label": label }, ...children);
}
