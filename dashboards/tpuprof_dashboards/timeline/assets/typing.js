// Part of the timeline: the keyboard.

import { TOP } from "./layout.js";

export const typing = {
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
  },

  glide(key, seconds) {
    const x = this.pointer?.x;
    if (key === "w") this.zoom(Math.exp(-2.6 * seconds), x);
    else if (key === "s") this.zoom(Math.exp(2.6 * seconds), x);
    else if (key === "a" || key === "arrowleft") this.pan(-0.9 * seconds);
    else if (key === "d" || key === "arrowright") this.pan(0.9 * seconds);
    else this.scrollTo(this.scroll + (key === "arrowup" ? -600 : 600) * seconds);
  },

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
  },

  keyMeasure() {
    if (this.selected && this.mode !== "measure") {
      this.measure = { t0: this.selected.start, t1: this.selected.start + (this.selected.length || 0) };
      this.tellMeasure();
    } else this.setMode(this.mode === "measure" ? "pan" : "measure");
  },

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
  },

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
  },
};
