// The line above the panels.

import { format } from "../pure/words.js";
import { attribute, button, element, say, show, flag } from "./dom.js";

const GONE = "The kernel was restarted or has ended. What is here still plays; run the cell again for more.";

/** The title, and pills that tell of the kernel, of work that takes long and of a run that goes on. */
export class Head {
  #player;
  #title = element("span", { class: "br-title" });
  #badge = element("span", { class: "br-pill br-busy", role: "status" });
  #work = element("span", { class: "br-pill br-work", role: "status" });
  #stop;
  #run;

  constructor(player) {
    this.#player = player;
    this.#stop = button("stop", "Stop", () => player.channel.post({ type: "stop" }), { text: "stop" });
    this.#run = element("button", { class: "br-pill br-live", type: "button", hidden: true, onclick: () => player.end() });
    this.node = element("div", { class: "br-head" }, this.#title, this.#badge, this.#work, this.#stop, this.#run);
  }

  get title() {
    return this.#title.textContent;
  }

  paint() {
    const { scene } = this.#player;
    say(this.#title, [scene.name, scene.title].filter(Boolean).join("   "));
    this.#paintKernel();
    this.#paintWork();
    this.#paintRun();
  }

  #paintKernel() {
    const { kernel, textual } = this.#player;
    const missing = kernel.gone ? "kernel gone" : "kernel busy";
    const text = kernel.busy ? missing : textual ? "text transport" : "";
    say(this.#badge, text);
    show(this.#badge, text !== "");
    attribute(this.#badge, "title", kernel.gone ? GONE : "");
  }

  #paintWork() {
    const { text, fraction } = this.#player.status;
    const share = typeof fraction === "number" ? ` ${Math.floor(fraction * 100)} %` : "";
    say(this.#work, text ? `${text}${share}` : "");
    show(this.#work, Boolean(text));
    show(this.#stop, Boolean(text));
  }

  #paintRun() {
    const { playhead, run } = this.#player;
    const { attached, writing } = run;
    const { rate, state, total } = run.told;
    show(this.#run, Boolean(state));
    if (!state) return;
    const of = total ? ` of ${total}` : "";
    const speed = rate ? ` · ${format(rate, 2)}/s` : "";
    say(this.#run, writing ? `LIVE  ${playhead.n}${of}${speed}` : state);
    flag(this.#run, "state", writing ? (attached ? "attached" : "detached") : state);
    attribute(this.#run, "title", writing && !attached ? "Follow the run again (End)" : `The run is ${state}`);
  }
}
