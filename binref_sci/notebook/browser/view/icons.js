// Pictures of buttons.

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
