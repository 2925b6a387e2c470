// The timeline: what is in view and how it is shown. What the user does, and what is asked of Python, are parts of it.

import { asking } from "./asking.js";
import { count, duration } from "./format.js";
import { LINK_EVENT, MIN_SPAN, TOP, SIZES, gutterOf, layOut, visible } from "./layout.js";
import { paintOverlay, paintScene } from "./paint.js";
import { frame, legendOf } from "./panels.js";
import { pointing } from "./pointing.js";
import { searching } from "./searching.js";
import { selecting } from "./selecting.js";
import { Store } from "./store.js";
import { Fitter, prepare, themeOf } from "./theme.js";
import { typing } from "./typing.js";

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

  // --- geometry ----------------------------------------------------------------------------------------------------

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

  // --- the view ----------------------------------------------------------------------------------------------------

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

  // --- drawing -----------------------------------------------------------------------------------------------------

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
}

Object.assign(Timeline.prototype, asking, searching, selecting, pointing, typing);
