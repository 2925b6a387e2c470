// Part of the timeline: the search, and going from match to match.

import { count } from "./format.js";
import { MIN_SPAN, TOP, layOut } from "./layout.js";

export const searching = {
  search(text) {
    const query = text.trim();
    if (query === this.query) return;
    this.query = query;
    this.matches = null;
    this.at = -1;
    this.showFound();
    this.redraw();
    if (query) this.ask(true);
  },

  takeMatches(data, window) {
    if (!this.query || window.query !== this.query) return;
    const table = data.matches;
    const of = (name) => table.getChild(name).toArray();
    const before = this.matches && this.at >= 0 ? this.current() : null;
    const jump = this.jump;
    this.matches = { total: window.found, row: of("row"), start: of("start"), length: of("length"), self: of("self"), item: of("item"), position: of("position") };
    this.at = before ? this.indexOf(before) : -1;
    if (jump) {
      this.jump = 0;
      this.nextMatch(jump);
    }
    this.showFound();
  },

  indexOf({ row, position }) {
    return this.matches.row.findIndex((r, i) => r === row && this.matches.position[i] === position);
  },

  current() {
    const { row, start, length, self, item, position } = this.matches;
    const i = this.at;
    return { row: row[i], position: position[i], item: item[i], start: start[i], length: length[i], self: Number.isNaN(self[i]) ? length[i] : self[i] };
  },

  nextMatch(direction) {
    if (this.parts.search.value.trim() !== this.query) {
      this.jump = direction;
      this.search(this.parts.search.value);
      return;
    }
    const { matches } = this;
    if (!matches) {
      this.jump = this.query ? direction : 0;
      return;
    }
    const n = matches.row.length;
    if (!n) return;
    if (this.at < 0) {
      const middle = (this.t0 + this.t1) / 2;
      const after = matches.start.findIndex((start) => start >= (direction > 0 ? this.t0 : middle));
      this.at = direction > 0 ? (after < 0 ? 0 : after) : after <= 0 ? n - 1 : after - 1;
    } else {
      const next = this.at + direction;
      if ((next < 0 || next >= n) && n < matches.total) { // beyond the matches that were sent: ask for those around here
        const here = this.current();
        this.show(here.start - (this.t1 - this.t0) / 2, here.start + (this.t1 - this.t0) / 2);
        this.jump = direction;
        this.last = null;
        this.ask(true);
        return;
      }
      this.at = (next + n) % n;
    }
    this.reveal(this.current());
    this.select(this.current());
    this.showFound();
  },

  showFound() {
    const { found, root } = this.parts;
    const { matches } = this;
    const text = !this.query ? "" : !matches ? "…" : !matches.total ? "none" :
      `${this.at < 0 ? "" : `${count(this.at + 1)} of `}${matches.total > matches.row.length && this.at >= 0 ? `${count(matches.row.length)} nearest, ` : ""}${count(matches.total)}`;
    found.textContent = text;
    if (matches) root.dataset.matches = String(matches.total);
    else delete root.dataset.matches;
    root.dataset.match = String(this.at);
  },

  /** Brings an event into view: opens its track, scrolls, and moves or zooms as little as that takes. */
  reveal(event) {
    const owner = this.lineOf(event.row);
    if (owner) {
      const g = owner.group;
      if (this.closed.delete(`g${this.layout.groups.indexOf(g)}`) | this.closed.delete(owner.key)) this.plan = layOut(this.layout.groups, this.closed);
    }
    const row = this.plan.rows.find((each) => each.row === event.row);
    if (row && (row.y < this.scroll || row.y + row.height > this.scroll + this.height - TOP)) {
      this.scroll = Math.min(Math.max(row.y - (this.height - TOP) / 2, 0), this.lowest());
    }
    const length = event.length || 0, middle = event.start + length / 2;
    let wide = this.t1 - this.t0;
    if (length * this.scale < 12) wide = Math.max(length * 60, MIN_SPAN);
    if (length > wide) wide = length * 1.5;
    const inside = event.start >= this.t0 && event.start + length <= this.t1 && wide === this.t1 - this.t0;
    if (inside) {
      this.redraw();
      this.askSoon();
    } else this.show(middle - wide / 2, middle + wide / 2);
  },

  lineOf(row) {
    for (const [g, group] of this.layout.groups.entries()) {
      for (const [t, track] of group.tracks.entries()) {
        if (row >= track.first && row < track.first + track.rows) return { key: `g${g}t${t}`, group, track };
      }
    }
    return null;
  },
};
