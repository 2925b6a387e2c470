// What painting stands on: colours of the page, canvases in its pixels, texts that fit.

/** The colours of the surroundings, from the page's theme, and those of events for light or dark. */
export function themeOf(element, colours) {
  const style = getComputedStyle(element);
  const of = (name, fallback) => style.getPropertyValue(name).trim() || fallback;
  const page = of("--st-background-color", "#ffffff");
  const dark = luminance(page) < 0.4;
  const font = of("--st-font", "sans-serif");
  return {
    dark, page, font,
    hatch: hatchOf(dark ? "#2c333c" : "#dfe3e8"),
    raised: of("--st-secondary-background-color", dark ? "#262730" : "#f0f2f6"),
    ink: of("--st-text-color", dark ? "#fafafa" : "#31333f"),
    accent: of("--st-primary-color", "#ff4b4b"),
    soft: dark ? "#9aa4af" : "#59636e",
    rule: dark ? "#2c333c" : "#dfe3e8",
    faint: dark ? "#1c2128" : "#f1f3f6",
    fills: colours.map(([, , light, night]) => (dark ? night : light)),
    inks: colours.map(([, , light, night]) => (luminance(dark ? night : light) > 0.36 ? "#14181d" : "#ffffff")),
  };
}

/** A pattern of slanted lines. */
function hatchOf(colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const context = tile.getContext("2d");
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  for (const x of [-8, 0, 8]) {
    context.moveTo(x - 2, 10);
    context.lineTo(x + 10, -2);
  }
  context.stroke();
  return context.createPattern(tile, "repeat");
}

function luminance(colour) {
  const hex = colour.replace("#", "");
  const parts = /^[0-9a-f]{6}/i.test(hex)
    ? [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16))
    : (colour.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  const [r, g, b] = parts.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Fits a canvas to its place and the screen's pixels; returns its context in CSS pixels. */
export function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio)), h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Texts cut to a width; widths of characters are measured once. */
export class Fitter {
  constructor() {
    this.widths = new Map();
    this.font = "";
  }

  fit(context, text, room) {
    if (context.font !== this.font) {
      this.font = context.font;
      this.widths.clear();
    }
    let used = 0;
    const dots = this.width(context, "…");
    let cut = 0;
    for (let i = 0; i < text.length; i++) {
      used += this.width(context, text[i]);
      if (used + dots <= room) cut = i + 1;
      if (used > room) {
        if (/[\ud800-\udbff]/.test(text[cut - 1])) cut--; // half of a character
        return cut ? text.slice(0, cut) + "…" : "";
      }
    }
    return text;
  }

  /** As `fit` for the name of a core: shortened without losing what differs, often the end of its host's name. */
  fitCore(context, name, room) {
    if (this.fit(context, name, room) === name) return name;
    const text = name.replace(/^\/device:/, "");
    if (this.fit(context, text, room) === text) return text;
    const head = this.fit(context, text, room * 0.6);
    let left = room * 0.95 - context.measureText(head).width;
    let at = text.length;
    while (at > 0 && (left -= this.width(context, text[at - 1])) >= 0) at--;
    if (/[\udc00-\udfff]/.test(text[at] ?? "")) at++; // half of a character
    return head + text.slice(at);
  }

  width(context, character) {
    let width = this.widths.get(character);
    if (width === undefined) {
      width = context.measureText(character).width;
      this.widths.set(character, width);
    }
    return width;
  }
}
