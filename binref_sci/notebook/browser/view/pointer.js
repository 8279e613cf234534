// What a pointer does to a picture.

import { WHOLE, inside, zoomed } from "../pure/windows.js";
import { element, show } from "./dom.js";

const LEAST_DRAG = 4; // pixels
const LEAST_WINDOW = 1e-4;

/** A drag zooms, one with Shift moves, the wheel zooms too, a click pins a point. */
export class Pointer {
  #box;
  #handlers;
  #window;
  #drag = null;

  band = element("div", { class: "br-band", hidden: true });

  /**
   * Points are of the whole picture (fx, fy) and inside the box (bx, by); `window()` is what of
   * the picture the box shows, null where it is all. `handlers` are `hover(point)`, which has null once the pointer has
   * left, `pin(point)`, `zoom(window)`, and `wheels(event)`: whether the wheel is for the picture.
   */
  constructor(box, window, handlers) {
    this.#box = box;
    this.#window = window;
    this.#handlers = handlers;
    box.addEventListener("pointerdown", (event) => this.#press(event));
    box.addEventListener("pointermove", (event) => {
      const point = this.#at(event);
      if (this.#drag) this.#dragTo(point);
      else handlers.hover(point);
    });
    box.addEventListener("pointerup", (event) => this.#release(event));
    box.addEventListener("pointercancel", () => this.cancel());
    box.addEventListener("pointerleave", () => {
      if (!this.#drag) handlers.hover(null);
    });
    box.addEventListener("dblclick", (event) => event.preventDefault());
    box.addEventListener("wheel", (event) => this.#turn(event), { passive: false });
  }

  /** End a drag; whether there was one. */
  cancel() {
    const dragging = this.#drag !== null;
    this.#drag = null;
    show(this.band, false);
    return dragging;
  }

  #at(event) {
    const { left, top, width, height } = this.#box.getBoundingClientRect();
    const [l, t, r, b] = this.#window() ?? WHOLE;
    const bx = Math.min(1, Math.max(0, (event.clientX - left) / width));
    const by = Math.min(1, Math.max(0, (event.clientY - top) / height));
    const most = 1 - 1e-9;
    return { bx, by, fx: Math.min(most, l + bx * (r - l)), fy: Math.min(most, t + by * (b - t)) };
  }

  #press(event) {
    if (event.button !== 0) return;
    this.#box.setPointerCapture(event.pointerId);
    const window = this.#window();
    this.#drag = { ...this.#at(event), window, pan: event.shiftKey && window !== null, moved: false };
  }

  #dragTo(point) {
    const drag = this.#drag;
    const { offsetWidth: width, offsetHeight: height } = this.#box;
    const across = Math.abs(point.bx - drag.bx) * width;
    const down = Math.abs(point.by - drag.by) * height;
    if (!drag.moved && across < LEAST_DRAG && down < LEAST_DRAG) return;
    drag.moved = true;
    if (drag.pan) {
      const [l, t, r, b] = drag.window;
      const x = (drag.bx - point.bx) * (r - l);
      const y = (drag.by - point.by) * (b - t);
      this.#handlers.zoom(inside([l + x, t + y, r + x, b + y]));
      return;
    }
    show(this.band, true);
    Object.assign(this.band.style, {
      left: `${Math.min(point.bx, drag.bx) * 100}%`,
      top: `${Math.min(point.by, drag.by) * 100}%`,
      width: `${across}px`,
      height: `${down}px`,
    });
  }

  #release(event) {
    const drag = this.#drag;
    if (!this.cancel()) return;
    const point = this.#at(event);
    if (!drag.moved) {
      this.#handlers.pin(point);
    } else if (!drag.pan) {
      const window = [
        Math.min(drag.fx, point.fx), Math.min(drag.fy, point.fy),
        Math.max(drag.fx, point.fx), Math.max(drag.fy, point.fy),
      ];
      const [left, top, right, bottom] = window;
      if (right - left > LEAST_WINDOW && bottom - top > LEAST_WINDOW) this.#handlers.zoom(inside(window));
    }
  }

  #turn(event) {
    if (!this.#handlers.wheels(event)) return;
    event.preventDefault();
    const { bx, by } = this.#at(event);
    const turned = event.deltaMode === 1 ? event.deltaY * 30 : event.deltaY;
    this.#handlers.zoom(zoomed(this.#window(), bx, by, Math.exp(turned / 400)));
  }
}
