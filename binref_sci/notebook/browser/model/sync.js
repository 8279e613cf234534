// Players on one clock.

import { matching } from "../pure/times.js";

const GROUPS = Symbol.for("binref_sci.players");

/** The place of one player among those of this page that have a name in common. */
export class Sync {
  #group = null;
  #host = null; // who was there before, while one of the two does not know its times

  led = false; // does what another player does

  constructor(player) {
    this.player = player;
  }

  /** Join the players of a name; "" leaves them. */
  join(name) {
    // the registry is the page's: a host may load this module once for each player
    const groups = (globalThis[GROUPS] ??= new Map());
    this.#group?.delete(this);
    this.#group = null;
    this.#host = null;
    if (!name) return;
    if (!groups.has(name)) groups.set(name, new Set());
    this.#group = groups.get(name);
    const [other] = this.#group;
    this.#group.add(this);
    for (const one of this.#group) one.player.needTimes();
    if (!other) return;
    this.#host = other;
    this.player.adopt(other.player);
  }

  get alone() {
    return (this.#group?.size ?? 0) < 2;
  }

  get #others() {
    return this.#group ? [...this.#group].filter((one) => one !== this && !one.player.disposed) : [];
  }

  /** Whose clock it is: the first that plays and can be seen. */
  get leader() {
    if (!this.#group) return this.player;
    const leads = ({ player }) => player.playhead.playing && player.visible && !player.disposed;
    return [...this.#group].find(leads)?.player ?? this.player;
  }

  /** Do something with all others; what they do then does not come back. */
  along(action) {
    if (this.led) return;
    for (const other of this.#others) {
      other.led = true;
      try {
        action(other.player);
      } finally {
        other.led = false;
      }
    }
  }

  /** Who keeps the clock may wait for a frame of this player. */
  wakeLeader() {
    const { leader, player } = this;
    if (player.playhead.playing && leader !== player) leader.refresh(false);
  }

  // --- frames that belong together ---

  /** The frame of this player that belongs to frame `i` of another. */
  indexFor(other, i) {
    const { playhead, scene, times } = this.player;
    const alike = scene.pace?.clock === other.scene.pace?.clock;
    return alike ? matching(times.values, other.times.values, i, playhead.last) : Math.min(i, playhead.last);
  }

  /** Up to `count` frames to come, as the player has them that keeps the clock. */
  ahead(count) {
    const { leader } = this;
    const found = leader.playhead.upcoming(count);
    return leader === this.player ? found : [...new Set(found.map((i) => this.indexFor(leader, i)))];
  }

  /** Whether those that play and can be seen have the frames that belong to frame `i`. */
  ready(i) {
    return !this.#others.some((other) => {
      const { player } = other;
      return player.playhead.playing && player.visible && !player.ready(other.indexFor(this.player, i));
    });
  }

  /** All players know more times than before: go where the one stands that was there before. */
  meet() {
    for (const one of this.#group ?? []) one.follow();
  }

  /** Go where the host stands, once both know their times. */
  follow() {
    const host = this.#host;
    if (!host?.player.times.values || !this.player.times.values) return;
    this.#host = null;
    if (this.player.playhead.playing) return;
    const index = this.indexFor(host.player, host.player.playhead.index);
    host.along((other) => other === this.player && other.seek(index));
  }
}
