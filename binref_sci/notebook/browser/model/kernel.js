// Whether the kernel answers.

import { now } from "../pure/clock.js";

const BUSY_MS = 500; // no answer for this long: the kernel is busy
const GONE_MS = 4000; // no answer for this long of a kernel that has nothing to do: it does not know us
const DOUBT_MS = 1500; // after the host has lost or found a kernel

/**
 * Whether the kernel is "busy" or "gone", or "" while all is well. `kernel` is what the host
 * tells of it: undefined where it tells nothing, null where there is none.
 */
export function kernelState(kernel, waiting) {
  if (kernel === null || kernel?.isDisposed || kernel?.connectionStatus === "disconnected") return "gone";
  if (["dead", "terminating", "restarting", "autorestarting"].includes(kernel?.status)) return "gone";
  if (kernel?.status === "idle" && waiting > GONE_MS) return "gone";
  return waiting > BUSY_MS ? "busy" : "";
}

/** The kernel as the player knows it: `busy` while it does not answer, `gone` once it never will. */
export class Kernel {
  #doubted = null;
  #wasGone;

  busy = false;
  gone = false;

  /** The host has lost or found it: if anybody answers, it is there. */
  doubt() {
    this.#doubted = now();
  }

  lost() {
    this.gone = true;
  }

  /** A message has come. */
  heard() {
    this.gone = false;
    this.#doubted = null;
  }

  /** What was waited for has come; whether it was busy. */
  answered() {
    const was = this.busy;
    this.busy = false;
    return was;
  }

  /** Look again, after `waiting` milliseconds without an answer; whether something has changed. */
  look(told, waiting) {
    const state = kernelState(told, waiting);
    if (state === "gone" || (this.#doubted && now() - this.#doubted > DOUBT_MS)) this.gone = true;
    const busy = state !== "" || this.gone;
    const changed = busy !== this.busy || this.gone !== this.#wasGone;
    this.busy = busy;
    this.#wasGone = this.gone;
    return changed;
  }
}
