// Part of the timeline: what the pointer does, and what it is over.

import { LINK_EVENT, MIN_SPAN, SIZES, TOP, layOut, visible } from "./layout.js";
import { scrollbar } from "./paint.js";
import { tipOf, tipOfLine } from "./panels.js";

const SEARCH_AFTER_MS = 250;
const SNAP_PX = 7;

export const pointing = {
  listen() {
    const { signal } = this.abort;
    const { stage, search, root } = this.parts;
    const on = (target, name, handler, options = {}) => target.addEventListener(name, handler, { signal, ...options });
    on(stage, "pointerdown", (event) => this.press(event));
    on(stage, "pointermove", (event) => this.move(event));
    on(stage, "pointerup", (event) => this.release(event));
    on(stage, "pointercancel", () => this.cancel());
    on(stage, "pointerleave", () => {
      this.pointer = this.hover = null;
      this.parts.tip.hidden = true;
      this.overlaySoon();
    });
    on(stage, "dblclick", (event) => this.doubleClick(event));
    on(stage, "wheel", (event) => this.wheel(event), { passive: false });
    on(root, "keydown", (event) => this.key(event));
    on(root, "keyup", (event) => {
      this.held.delete(event.key.toLowerCase());
      event.stopPropagation();
    });
    on(stage, "blur", () => this.held.clear());
    on(search, "input", () => {
      clearTimeout(this.searching);
      this.searching = setTimeout(() => this.search(search.value), SEARCH_AFTER_MS);
    });
    on(window, LINK_EVENT, ({ detail }) => {
      if (!this.layout || !this.linked || detail.sync !== this.sync || detail.from === this.id) return;
      const home = this.layout.home[0];
      this.show(detail.t0 + home, detail.t1 + home, true);
    });
  },

  place(event) {
    const box = this.parts.stage.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    return { x, y, zone: y < SIZES.overview ? "overview" : y < TOP ? "ruler" : x > this.width - 10 ? "bar" : x < this.gutter ? "names" : "tracks" };
  },

  press(event) {
    if (event.button !== 0 || event.target.closest?.(".help")) return;
    this.parts.stage.focus({ preventScroll: true });
    const at = this.place(event);
    this.parts.stage.setPointerCapture(event.pointerId);
    const mode = event.shiftKey ? "measure" : at.zone === "ruler" ? "zoom" : this.mode;
    this.drag = { ...at, mode, t: this.time(at.x), t0: this.t0, t1: this.t1, scroll: this.scroll, moved: false, scale: this.scale };
    if (at.zone === "overview") this.moveInOverview(at.x);
  },

  moveInOverview(x) {
    const t = ((x - this.gutter) / (this.width - this.gutter)) * this.span, half = (this.t1 - this.t0) / 2;
    this.show(t - half, t + half);
  },

  move(event) {
    const at = this.place(event);
    this.pointer = at;
    const { drag } = this;
    if (!drag) {
      this.hoverAt(at, event);
      this.overlaySoon();
      return;
    }
    if (!drag.moved && Math.hypot(at.x - drag.x, at.y - drag.y) < 4) return;
    drag.moved = true;
    this.parts.tip.hidden = true;
    if (drag.zone === "overview") this.moveInOverview(at.x);
    else if (drag.zone === "bar") {
      const bar = scrollbar(this.sceneNow());
      if (bar) this.scrollTo(drag.scroll + ((at.y - drag.y) / bar.track) * this.lowest());
    } else if (drag.zone === "names") this.scrollTo(drag.scroll - (at.y - drag.y));
    else if (drag.mode === "pan") {
      const by = (drag.x - at.x) / drag.scale;
      this.scroll = Math.min(Math.max(drag.scroll - (at.y - drag.y), 0), this.lowest());
      this.show(drag.t0 + by, drag.t1 + by);
    } else if (drag.mode === "measure") {
      this.measure = { t0: this.snap(drag, drag.t), t1: this.snap(at, this.time(at.x)) };
      this.tellMeasure();
      this.overlaySoon();
    } else {
      this.band = { t0: drag.t, t1: this.time(at.x) };
      this.overlaySoon();
    }
  },

  release(event) {
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    const at = this.place(event);
    if (this.band) {
      const { t0, t1 } = this.band;
      this.band = null;
      this.show(Math.min(t0, t1), Math.max(t0, t1));
      return;
    }
    if (drag.moved) return;
    if (at.zone === "names" || (at.zone === "tracks" && this.isHead(at))) this.toggleLine(this.lineAt(at.y));
    else if (at.zone === "tracks") {
      this.measure = null;
      this.tellMeasure();
      const over = this.over(at);
      if (over?.event) this.select(over.event);
      else if (!over) this.select(null);
    }
  },

  cancel() {
    this.drag = this.band = null;
    this.redraw();
  },

  doubleClick(event) {
    const at = this.place(event);
    const over = at.zone === "tracks" && this.over(at);
    const what = over && (over.event ?? over.block);
    if (!what) return;
    const length = Math.max(what.length || 0, MIN_SPAN);
    this.show(what.start - length * 0.15, what.start + length * 1.15);
  },

  wheel(event) {
    if (event.target.closest?.(".help")) return;
    event.preventDefault();
    const at = this.place(event);
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const dx = event.deltaX * unit, dy = event.deltaY * unit;
    if (at.zone === "names" || at.zone === "bar") this.scrollTo(this.scroll + dy);
    else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) this.pan((dx || dy) / (this.width - this.gutter));
    else this.zoom(Math.exp(Math.min(Math.max(dy, -300), 300) * 0.0018), at.x);
    this.hoverAt(at, event); // something else is under the pointer now
  },

  lineAt(y) {
    const at = y - TOP + this.scroll;
    return this.plan.lines.find((line) => at >= line.y && at < line.y + line.height) ?? null;
  },

  /** Whether a point is on the head of a group, and not on an event that is sketched there. */
  isHead(at) {
    const line = this.lineAt(at.y);
    return line !== null && !line.track && !(line.sketched && this.over(at)?.event);
  },

  toggleLine(line) {
    if (!line) return;
    if (!this.closed.delete(line.key)) this.closed.add(line.key);
    this.plan = layOut(this.layout.groups, this.closed);
    this.scrollTo(this.scroll);
  },

  over({ x, y }) {
    const at = y - TOP + this.scroll;
    const [row] = visible(this.plan.rows, at, at + 0.5);
    if (!row) return null;
    const hit = this.store.hit(row.row, this.time(x), 3 / this.scale);
    return hit && { ...hit, line: row.line };
  },

  hoverAt(at, event) {
    const { tip } = this.parts;
    let children = null;
    this.hover = null;
    if (at.zone === "tracks") {
      this.hover = this.over(at);
      if (this.hover) children = tipOf(this.hover, { items: this.store.items, theme: this.theme, colours: this.layout.colours, origin: this.layout.origin });
    } else if (at.zone === "names") {
      const line = this.lineAt(at.y);
      if (line) children = tipOfLine(line);
    }
    if (event.target.closest?.(".help")) children = null;
    tip.hidden = !children;
    if (!children) return;
    tip.replaceChildren(...children.filter(Boolean));
    const { offsetWidth: w, offsetHeight: h } = tip;
    tip.style.left = `${Math.min(at.x + 14, this.width - w - 8) - (at.x + 14 > this.width - w - 8 && at.y + 18 > this.height - h - 4 ? w + 20 : 0)}px`;
    tip.style.top = `${Math.max(at.y + 18 > this.height - h - 4 ? Math.min(at.y - h - 10, this.height - h - 4) : at.y + 18, 2)}px`;
  },

  /** The edge of an event next to the pointer, else the time itself. */
  snap(at, t) {
    const over = this.over({ x: at.x, y: at.y });
    if (!over?.event) return t;
    const { start, length } = over.event, slack = SNAP_PX / this.scale;
    if (Math.abs(start - t) < slack) return start;
    return Math.abs(start + (length || 0) - t) < slack ? start + (length || 0) : t;
  },

  tellMeasure() {
    const { dataset } = this.parts.root;
    if (this.measure) dataset.measurePs = String(Math.round(Math.abs(this.measure.t1 - this.measure.t0)));
    else delete dataset.measurePs;
    this.overlaySoon();
  },
};
