// The timeline: what is in view, what the user does, and what is asked of Python.

import { count, duration } from "./format.js";
import { SIZES, gutterOf, layOut, ranges, visible } from "./layout.js";
import { Fitter, paintOverlay, paintScene, prepare, scrollbar, themeOf } from "./paint.js";
import { detailsOf, frame, legendOf, tipOf, tipOfLine } from "./panels.js";
import { Store } from "./store.js";

const TOP = SIZES.overview + SIZES.ruler;
const ASK_AFTER_MS = 90;
const SEARCH_AFTER_MS = 250;
const MIN_SPAN = 20; // ps in view at least
const SNAP_PX = 7;
const OVERSCAN_ROWS = 8;
const MAX_ROWS = 150; // what one answer may hold
const LINK_EVENT = "tpuprof-timeline-view";

export class Timeline {
  constructor(parent) {
    this.parts = frame({
      mode: (mode) => this.setMode(mode), match: (d) => this.nextMatch(d), zoom: (by) => this.zoom(by),
      fit: () => this.fit(), help: () => this.toggleHelp(), link: () => this.toggleLink(),
    });
    parent.append(this.parts.root);
    this.id = Math.random().toString(36).slice(2);
    this.store = new Store();
    this.fitter = new Fitter();
    this.closed = new Set();
    this.held = new Set();
    this.mode = "pan";
    this.scroll = 0;
    this.query = "";
    this.matches = null;
    this.at = -1;
    this.linked = true;
    this.asked = 0;
    this.updates = 0;
    this.abort = new AbortController();
    this.listen();
    this.resized = new ResizeObserver(() => this.redraw());
    this.resized.observe(this.parts.stage);
  }

  /** Takes new data from Python. */
  update({ data, setStateValue }) {
    this.updates++;
    this.send = setStateValue;
    const { layout } = data;
    if (layout.token !== this.token) this.open(data);
    this.layout = layout;
    this.plan = layOut(layout.groups, this.closed);
    this.sync = data.sync || "";
    this.tells = data.tells;
    this.parts.link.hidden = !this.sync;
    const window = this.store.add(data);
    if (window.number >= this.asked) this.parts.root.removeAttribute("data-pending");
    this.takeMatches(data, window);
    this.theme = themeOf(this.parts.root, layout.colours);
    this.parts.root.style.setProperty("--rule", this.theme.rule);
    this.parts.root.style.setProperty("--soft", this.theme.soft);
    if (data.go && data.go.id !== this.gone) {
      this.gone = data.go.id;
      this.show(data.go.t0, data.go.t1);
    }
    if (data.search !== this.given) { // the page asks for another search; what the user types goes on from there
      this.given = this.parts.search.value = data.search;
      this.search(data.search);
    }
    this.parts.stage.setAttribute("aria-label", `Timeline of ${layout.run}, ${count(layout.events)} events in ${duration(layout.span)}. Press ? for keys.`);
    const { dataset } = this.parts.root;
    dataset.theme = this.theme.dark ? "dark" : "light";
    dataset.answers = String(Number(dataset.answers ?? 0) + 1);
    dataset.events = String(layout.events);
    this.showDetails();
    this.redraw();
    this.askSoon();
  }

  /** Another run, or the first one. */
  open(data) {
    this.token = data.layout.token;
    this.store = new Store();
    this.closed = new Set(data.closed);
    this.selected = null;
    this.measure = null;
    this.last = null;
    this.request = null;
    this.gone = data.go?.id;
    [this.t0, this.t1] = data.view ?? data.layout.home;
    this.span = data.layout.span;
    this.query = data.window.query;
    this.parts.search.value = this.query;
    this.given = data.search;
    this.scroll = 0;
  }

  destroy() {
    this.abort.abort();
    this.resized.disconnect();
    clearTimeout(this.asking);
    clearTimeout(this.searching);
    cancelAnimationFrame(this.frameId);
    cancelAnimationFrame(this.gliding);
    this.parts.root.remove();
  }

  // --- geometry ------------------------------------------------------------------------------------------------------

  get width() {
    return Math.max(this.parts.stage.clientWidth, 160);
  }

  get gutter() {
    return gutterOf(this.width);
  }

  get height() {
    return Math.max(this.parts.stage.clientHeight, TOP + 40);
  }

  get scale() {
    return (this.width - this.gutter - 10) / (this.t1 - this.t0);
  }

  x(t) {
    return this.gutter + (t - this.t0) * this.scale;
  }

  time(x) {
    return this.t0 + (x - this.gutter) / this.scale;
  }

  /** The level of detail that can be seen: buckets of a pixel or less. */
  level() {
    return Math.floor(Math.log2(Math.max(1 / this.scale, 1)));
  }

  lowest() {
    return Math.max(0, this.plan.height - (this.height - TOP));
  }

  // --- the view ------------------------------------------------------------------------------------------------------

  /** Shows [t0, t1), kept within the run and a margin. */
  show(t0, t1, fromLink = false) {
    const margin = this.span * 0.05 + 1;
    const wide = Math.min(Math.max(t1 - t0, MIN_SPAN), this.span + 2 * margin);
    let from = t0 + (t1 - t0 - wide) / 2;
    from = Math.min(Math.max(from, -margin), this.span + margin - wide);
    this.t0 = from;
    this.t1 = from + wide;
    if (!fromLink) this.tellLinked();
    this.redraw();
    this.askSoon();
  }

  zoom(by, x) {
    const t = x === undefined || x < this.gutter ? (this.t0 + this.t1) / 2 : this.time(x);
    const next = Math.max((this.t1 - this.t0) * by, MIN_SPAN);
    const share = (t - this.t0) / (this.t1 - this.t0);
    this.show(t - share * next, t + (1 - share) * next);
  }

  pan(share) {
    const by = (this.t1 - this.t0) * share;
    this.show(this.t0 + by, this.t1 + by);
  }

  scrollTo(y) {
    this.scroll = Math.min(Math.max(y, 0), this.lowest());
    this.redraw();
    this.askSoon();
  }

  /** Fits the measured stretch, the selection, the steps, or at the second time the whole run. */
  fit() {
    const home = this.layout.home;
    const near = ([a, b]) => Math.abs(this.t0 - a) + Math.abs(this.t1 - b) < (b - a) * 1e-3;
    const around = (t0, t1, by) => [t0 - (t1 - t0) * by, t1 + (t1 - t0) * by];
    const choices = [home, [0, this.span]];
    const chosen = this.measure ?? (this.selected && { t0: this.selected.start, t1: this.selected.start + (this.selected.length || 0) });
    if (chosen) {
      const a = Math.min(chosen.t0, chosen.t1), b = Math.max(chosen.t0, chosen.t1);
      choices.unshift(around(a, Math.max(b, a + MIN_SPAN), 0.15));
    }
    const now = choices.findIndex(near);
    this.show(...choices[(now + 1) % choices.length]);
  }

  tellLinked() {
    if (!this.sync || !this.linked) return;
    const home = this.layout.home[0];
    const detail = { from: this.id, sync: this.sync, t0: this.t0 - home, t1: this.t1 - home };
    window.dispatchEvent(new CustomEvent(LINK_EVENT, { detail }));
  }

  toggleLink() {
    this.linked = !this.linked;
    this.parts.link.setAttribute("aria-pressed", String(this.linked));
    this.tellLinked();
  }

  setMode(mode) {
    this.mode = mode;
    for (const tool of this.parts.bar.querySelectorAll("[data-mode]")) tool.setAttribute("aria-pressed", String(tool.dataset.mode === mode));
    this.parts.root.dataset.mode = mode;
    this.parts.stage.style.cursor = mode === "pan" ? "default" : "crosshair";
  }

  toggleHelp() {
    this.parts.help.hidden = !this.parts.help.hidden;
  }

  // --- drawing -------------------------------------------------------------------------------------------------------

  redraw() {
    this.dirty = true;
    this.frameId ??= requestAnimationFrame(() => this.paint());
  }

  overlaySoon() {
    this.frameId ??= requestAnimationFrame(() => this.paint());
  }

  sceneNow() {
    return {
      width: this.width, height: this.height, top: TOP, gutter: this.gutter, origin: this.layout.origin, t0: this.t0, t1: this.t1, scale: this.scale, x: (t) => this.x(t), time: (x) => this.time(x), level: this.level(),
      span: this.span, overview: this.layout.overview, plan: this.plan, scroll: this.scroll, store: this.store,
      theme: this.theme, query: this.query, fitter: this.fitter, pointer: this.pointer, hover: this.hover,
      selected: this.selected, measure: this.measure, band: this.band,
    };
  }

  paint() {
    this.frameId = undefined;
    if (!this.layout || !this.parts.root.isConnected) return;
    this.scroll = Math.min(this.scroll, this.lowest());
    const scene = this.sceneNow();
    const { dataset } = this.parts.root;
    if (this.dirty) {
      this.dirty = false;
      const began = performance.now();
      dataset.drawn = String(paintScene(prepare(this.parts.scene, scene.width, scene.height), scene));
      dataset.redrawMs = (performance.now() - began).toFixed(2);
      dataset.redraws = String(Number(dataset.redraws ?? 0) + 1);
      dataset.t0 = String(Math.round(this.t0));
      dataset.t1 = String(Math.round(this.t1));
      this.parts.where.textContent = `${duration(this.t1 - this.t0)} in view`;
      this.showLegend(scene);
    }
    paintOverlay(prepare(this.parts.overlay, scene.width, scene.height), scene);
  }

  /** The colours of what is in view. */
  showLegend(scene) {
    const used = new Set();
    for (const { row } of visible(this.plan.rows, this.scroll, this.scroll + this.height - TOP)) {
      for (const { window, at } of this.store.pieces(row, this.t0, this.t1, scene).found) {
        window.coloursOf ??= new Map();
        if (!window.coloursOf.has(at)) {
          const of = new Set(window.blocks.colour.subarray(window.blocksOf[at], window.blocksOf[at + 1]));
          for (const item of window.events.item.subarray(window.eventsOf[at], window.eventsOf[at + 1])) {
            const known = this.store.items.get(item);
            if (known) of.add(known.colour);
          }
          window.coloursOf.set(at, of);
        }
        for (const colour of window.coloursOf.get(at)) used.add(colour);
      }
    }
    const key = [...used].sort().join() + scene.theme.dark;
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.parts.legend.replaceChildren(...legendOf(used, { theme: scene.theme, colours: this.layout.colours }));
  }

  // --- asking Python -------------------------------------------------------------------------------------------------

  askSoon(after = ASK_AFTER_MS) {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.ask(), after);
  }

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
  }

  /** What is in view, in whole picoseconds. */
  seen() {
    return [Math.round(this.t0), Math.round(this.t1)];
  }

  /** Tells the page what is in view, if it wants to know, without asking for anything new. */
  tellSeen() {
    const seen = this.seen();
    if (!this.tells || (this.request ?? { seen: this.layout.home }).seen.every((t, n) => t === seen[n])) return;
    this.request = { ...(this.request ?? {}), seen };
    this.send("view", this.request);
  }

  newest() {
    return Math.max(0, ...this.store.windows.map((window) => window.number));
  }

  // --- search --------------------------------------------------------------------------------------------------------

  search(text) {
    const query = text.trim();
    if (query === this.query) return;
    this.query = query;
    this.matches = null;
    this.at = -1;
    this.showFound();
    this.redraw();
    if (query) this.ask(true);
  }

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
  }

  indexOf({ row, position }) {
    return this.matches.row.findIndex((r, i) => r === row && this.matches.position[i] === position);
  }

  current() {
    const { row, start, length, self, item, position } = this.matches;
    const i = this.at;
    return { row: row[i], position: position[i], item: item[i], start: start[i], length: length[i], self: Number.isNaN(self[i]) ? length[i] : self[i] };
  }

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
  }

  showFound() {
    const { found, root } = this.parts;
    const { matches } = this;
    const text = !this.query ? "" : !matches ? "…" : !matches.total ? "none" :
      `${this.at < 0 ? "" : `${count(this.at + 1)} of `}${matches.total > matches.row.length && this.at >= 0 ? `${count(matches.row.length)} nearest, ` : ""}${count(matches.total)}`;
    found.textContent = text;
    if (matches) root.dataset.matches = String(matches.total);
    else delete root.dataset.matches;
    root.dataset.match = String(this.at);
  }

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
  }

  lineOf(row) {
    for (const [g, group] of this.layout.groups.entries()) {
      for (const [t, track] of group.tracks.entries()) {
        if (row >= track.first && row < track.first + track.rows) return { key: `g${g}t${t}`, group, track };
      }
    }
    return null;
  }

  // --- selection -----------------------------------------------------------------------------------------------------

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
    this.telling = setTimeout(() => this.send?.("selected", event && { row: event.row, position: event.position }), 120);
  }

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
  }

  step(direction) {
    const from = this.selected ?? { row: this.firstWorkRow(), position: direction > 0 ? -1 : Infinity };
    const next = this.store.neighbour(from.row, 0, from.position, direction, this.t0, this.t1);
    if (!next) return;
    this.select(next);
    this.reveal(next);
  }

  firstWorkRow() {
    const shown = visible(this.plan.rows, this.scroll, this.scroll + this.height - TOP);
    return (shown.find(({ line }) => line.track.work) ?? shown[0])?.row ?? 0;
  }

  // --- pointer -------------------------------------------------------------------------------------------------------

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
  }

  place(event) {
    const box = this.parts.stage.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    return { x, y, zone: y < SIZES.overview ? "overview" : y < TOP ? "ruler" : x > this.width - 10 ? "bar" : x < this.gutter ? "names" : "tracks" };
  }

  press(event) {
    if (event.button !== 0 || event.target.closest?.(".help")) return;
    this.parts.stage.focus({ preventScroll: true });
    const at = this.place(event);
    this.parts.stage.setPointerCapture(event.pointerId);
    const mode = event.shiftKey ? "measure" : at.zone === "ruler" ? "zoom" : this.mode;
    this.drag = { ...at, mode, t: this.time(at.x), t0: this.t0, t1: this.t1, scroll: this.scroll, moved: false, scale: this.scale };
    if (at.zone === "overview") this.moveInOverview(at.x);
  }

  moveInOverview(x) {
    const t = ((x - this.gutter) / (this.width - this.gutter)) * this.span, half = (this.t1 - this.t0) / 2;
    this.show(t - half, t + half);
  }

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
  }

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
    if (at.zone === "names" || (at.zone === "tracks" && this.lineAt(at.y)?.track === undefined)) this.toggleLine(this.lineAt(at.y));
    else if (at.zone === "tracks") {
      this.measure = null;
      this.tellMeasure();
      const over = this.over(at);
      if (over?.event) this.select(over.event);
      else if (!over) this.select(null);
    }
  }

  cancel() {
    this.drag = this.band = null;
    this.redraw();
  }

  doubleClick(event) {
    const at = this.place(event);
    const over = at.zone === "tracks" && this.over(at);
    const what = over && (over.event ?? over.block);
    if (!what) return;
    const length = Math.max(what.length || 0, MIN_SPAN);
    this.show(what.start - length * 0.15, what.start + length * 1.15);
  }

  wheel(event) {
    if (event.target.closest?.(".help")) return;
    event.preventDefault();
    const at = this.place(event);
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const dx = event.deltaX * unit, dy = event.deltaY * unit;
    if (at.zone === "names" || at.zone === "bar") this.scrollTo(this.scroll + dy);
    else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) this.pan((dx || dy) / (this.width - this.gutter));
    else this.zoom(Math.exp(Math.min(Math.max(dy, -300), 300) * 0.0018), at.x);
  }

  lineAt(y) {
    const at = y - TOP + this.scroll;
    return this.plan.lines.find((line) => at >= line.y && at < line.y + line.height) ?? null;
  }

  toggleLine(line) {
    if (!line) return;
    if (!this.closed.delete(line.key)) this.closed.add(line.key);
    this.plan = layOut(this.layout.groups, this.closed);
    this.scrollTo(this.scroll);
  }

  over({ x, y }) {
    const at = y - TOP + this.scroll;
    const [row] = visible(this.plan.rows, at, at + 0.5);
    if (!row) return null;
    const hit = this.store.hit(row.row, this.time(x), 3 / this.scale);
    return hit && { ...hit, line: row.line };
  }

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
  }

  /** The edge of an event next to the pointer, else the time itself. */
  snap(at, t) {
    const over = this.over({ x: at.x, y: at.y });
    if (!over?.event) return t;
    const { start, length } = over.event, slack = SNAP_PX / this.scale;
    if (Math.abs(start - t) < slack) return start;
    return Math.abs(start + (length || 0) - t) < slack ? start + (length || 0) : t;
  }

  tellMeasure() {
    const { dataset } = this.parts.root;
    if (this.measure) dataset.measurePs = String(Math.round(Math.abs(this.measure.t1 - this.measure.t0)));
    else delete dataset.measurePs;
    this.overlaySoon();
  }

  // --- keyboard ------------------------------------------------------------------------------------------------------

  /** Keys stay here: the page has shortcuts of its own on plain letters. */
  key(event) {
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    this.parts.tip.hidden = true; // it speaks of what was under the pointer before
    this.hover = null;
    if (event.target === this.parts.search) return this.keyInSearch(event);
    if (event.target.closest?.("button") && (event.key === "Enter" || event.key === " ")) return;
    const key = event.key.toLowerCase();
    const actions = {
      f: () => this.fit(), 0: () => this.show(0, this.span), m: () => this.keyMeasure(), "?": () => this.toggleHelp(),
      "/": () => this.parts.search.focus(), n: () => this.nextMatch(1), p: () => this.nextMatch(-1), ",": () => this.step(-1), ".": () => this.step(1),
      "+": () => this.zoom(1 / 1.4), "=": () => this.zoom(1 / 1.4), "-": () => this.zoom(1.4), escape: () => this.escape(),
      home: () => this.scrollTo(0), end: () => this.scrollTo(this.lowest()),
      pageup: () => this.scrollTo(this.scroll - (this.height - TOP) * 0.8), pagedown: () => this.scrollTo(this.scroll + (this.height - TOP) * 0.8),
    };
    if (["w", "a", "s", "d", "arrowleft", "arrowright", "arrowup", "arrowdown"].includes(key)) {
      event.preventDefault();
      if (this.held.has(key)) return; // the glide goes on by itself
      this.held.add(key);
      this.glide(key, 1 / 7);
      this.glideOn();
    } else if (actions[key]) {
      event.preventDefault();
      actions[key]();
    }
  }

  glide(key, seconds) {
    const x = this.pointer?.x;
    if (key === "w") this.zoom(Math.exp(-2.6 * seconds), x);
    else if (key === "s") this.zoom(Math.exp(2.6 * seconds), x);
    else if (key === "a" || key === "arrowleft") this.pan(-0.9 * seconds);
    else if (key === "d" || key === "arrowright") this.pan(0.9 * seconds);
    else this.scrollTo(this.scroll + (key === "arrowup" ? -600 : 600) * seconds);
  }

  /** Moves on while keys are held. */
  glideOn() {
    if (this.gliding) return;
    let before = performance.now() + 160; // a short press is one step
    const on = (now) => {
      this.gliding = undefined;
      if (!this.held.size) return;
      if (now > before) {
        for (const key of this.held) this.glide(key, Math.min(now - before, 100) / 1000);
        before = now;
      }
      this.gliding = requestAnimationFrame(on);
    };
    this.gliding = requestAnimationFrame(on);
  }

  keyMeasure() {
    if (this.selected && this.mode !== "measure") {
      this.measure = { t0: this.selected.start, t1: this.selected.start + (this.selected.length || 0) };
      this.tellMeasure();
    } else this.setMode(this.mode === "measure" ? "pan" : "measure");
  }

  keyInSearch(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(this.searching);
      this.nextMatch(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      this.parts.search.value = "";
      this.search("");
      this.parts.stage.focus();
    }
  }

  escape() {
    if (!this.parts.help.hidden) this.toggleHelp();
    else if (this.band || this.drag) this.cancel();
    else if (this.measure) {
      this.measure = null;
      this.tellMeasure();
    } else if (this.mode !== "pan") this.setMode("pan");
    else if (this.selected) this.select(null);
    else if (this.query) {
      this.parts.search.value = "";
      this.search("");
    }
  }
}
