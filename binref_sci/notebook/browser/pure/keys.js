// What keys mean, and speeds to choose from.

const KEYS = {
  " ": "play",
  Home: "first",
  End: "last",
  "+": "faster",
  "=": "faster",
  "-": "slower",
  l: "loop",
  r: "reverse",
  m: "mode",
  "[": "in",
  "]": "out",
  i: "in",
  o: "out",
  x: "all",
  c: "colour",
  n: "norm",
  a: "auto",
  f: "full",
  s: "save",
  t: "telemetry",
  0: "unzoom",
  "?": "help",
  Escape: "leave",
};

/** What a key press means, or null: with Ctrl, Alt or Meta it is somebody else's. */
export function commandOf({ key, shiftKey, ctrlKey, altKey, metaKey }) {
  if (altKey && !metaKey && (key === "[" || key === "]")) return KEYS[key]; // as many keyboards have them
  if (ctrlKey || altKey || metaKey) return null;
  if (key === "ArrowLeft") return shiftKey ? "back10" : "back";
  if (key === "ArrowRight") return shiftKey ? "forward10" : "forward";
  const lower = key.length === 1 ? key.toLowerCase() : key;
  return Object.hasOwn(KEYS, lower) ? KEYS[lower] : null;
}

const SPEEDS = [1, 2, 3, 5, 8, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 90, 120];

/** The next faster (`by` 1) or slower (-1) speed. */
export function speedOf(fps, by) {
  if (by > 0) return SPEEDS.find((speed) => speed > fps) ?? SPEEDS.at(-1);
  return SPEEDS.findLast((speed) => speed < fps) ?? SPEEDS[0];
}
