// Part of the timeline: asking Python for what is in view.

import { SIZES, TOP, ranges, visible } from "./layout.js";

const ASK_AFTER_MS = 90;
const OVERSCAN_ROWS = 8;
const MAX_ROWS = 150; // what one answer may hold

export const asking = {
  askSoon(after = ASK_AFTER_MS) {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.ask(), after);
  },

  /** Asks for what is in view, and half of it on both sides, if what is held could show more. */
  ask(force = false) {
    if (!this.plan || !this.send) return;
    const low = Math.max(this.t0, 0), high = Math.min(this.t1, this.span);
    if (high <= low) return;
    const level = this.level();
    const shown = visible(this.plan.rows, this.scroll, this.scroll + this.height - TOP).map(({ row }) => row);
    const lacking = shown.filter((row) => this.store.needs(row, low, high, level));
    if (!lacking.length && !force) {
      this.tellSeen();
      return;
    }
    const signature = JSON.stringify([Math.round(low), Math.round(high), ranges(shown), this.query, force]);
    if (signature === this.last) return; // the answer was as fine as it can be
    this.last = signature;
    const half = (high - low) / 2;
    const near = visible(this.plan.rows, this.scroll - OVERSCAN_ROWS * SIZES.row, this.scroll + this.height - TOP + OVERSCAN_ROWS * SIZES.row);
    const rows = [...new Set([...shown, ...near.map(({ row }) => row)])].slice(0, MAX_ROWS);
    const t0 = Math.max(low - half, 0), t1 = Math.min(high + half, this.span);
    this.asked = Math.max(this.asked, this.newest()) + 1;
    this.parts.root.dataset.pending = String(this.asked);
    this.request = {
      t0: Math.floor(t0), t1: Math.ceil(t1), width: Math.ceil((t1 - t0) * this.scale), rows: ranges(rows), query: this.query,
      near: Math.round((this.t0 + this.t1) / 2), number: this.asked, seen: this.seen(),
    };
    this.send("view", this.request);
  },

  /** What is in view, in whole picoseconds. */
  seen() {
    return [Math.round(this.t0), Math.round(this.t1)];
  },

  /** Tells the page what is in view, if it wants to know, without asking for anything new. */
  tellSeen() {
    const seen = this.seen();
    if (!this.tells || (this.request ?? { seen: this.layout.home }).seen.every((t, n) => t === seen[n])) return;
    this.request = { ...(this.request ?? {}), seen };
    this.send("view", this.request);
  },

  newest() {
    return Math.max(0, ...this.store.windows.map((window) => window.number));
  },
};
