// A run that is going on.

/** What Python tells of it, and whether each step that comes is shown. */
export class Run {
  #channel;

  constructor(channel) {
    this.#channel = channel;
    this.set(channel.get("live", {}));
  }

  set(told) {
    this.told = told ?? {};
    this.attached = this.told.attached === true;
  }

  get writing() {
    return this.told.state === "writing";
  }

  attach(on) {
    this.attached = on;
    this.#channel.post({ type: "attach", on });
  }
}
