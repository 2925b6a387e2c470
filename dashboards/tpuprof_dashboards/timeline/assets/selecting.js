// Part of the timeline: what is selected.

import { duration } from "./format.js";
import { TOP, visible } from "./layout.js";
import { detailsOf } from "./panels.js";

const TELL_AFTER_MS = 120;

export const selecting = {
  select(event) {
    this.selected = event;
    const { dataset } = this.parts.root;
    const item = event && this.store.items.get(event.item);
    if (event) dataset.selected = `${event.row}:${event.position}`;
    else delete dataset.selected;
    this.parts.live.textContent = event ? `${item?.name ?? "event"}, ${duration(event.length)}` : "";
    this.showDetails();
    this.overlaySoon();
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.send?.("selected", event ? { row: event.row, position: event.position } : {}), TELL_AFTER_MS);
  },

  showDetails() {
    const { details } = this.parts;
    if (!this.selected) {
      const note = this.layout.notes.join(" ");
      details.textContent = note || "Click an event for its details. W S zoom, A D move, Shift+drag measures, / searches, ? shows all keys.";
      details.classList.add("soft");
      return;
    }
    details.classList.remove("soft");
    const context = { items: this.store.items, theme: this.theme, about: this.layout.about, origin: this.layout.origin };
    details.replaceChildren(...detailsOf(this.selected, this.lineOf(this.selected.row), context, {
      find: (name) => {
        this.parts.search.value = name;
        this.search(name);
      },
      drop: () => this.select(null),
    }));
  },

  step(direction) {
    const from = this.selected ?? { row: this.firstWorkRow(), position: direction > 0 ? -1 : Infinity };
    const next = this.store.neighbour(from.row, 0, from.position, direction, this.t0, this.t1);
    if (!next) return;
    this.select(next);
    this.reveal(next);
  },

  firstWorkRow() {
    const shown = visible(this.plan.rows, this.scroll, this.scroll + this.height - TOP);
    return (shown.find(({ line }) => line.track.work) ?? shown[0])?.row ?? 0;
  },
};
