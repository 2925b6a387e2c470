// The parts of a timeline that are no canvas. Texts from traces are set as textContent alone.

import { count, duration, exact, percent } from "./format.js";

/** A new element with attributes, texts and children. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

const KEYS = [
  ["W  S", "zoom in, zoom out at the pointer"],
  ["A  D", "earlier, later (also ← →)"],
  ["↑  ↓", "scroll the tracks"],
  ["wheel", "zoom at the pointer; with Shift along the time; over the names scroll"],
  ["drag", "move; on the ruler or in mode Zoom choose what to zoom to"],
  ["Shift drag", "measure; edges of events attract"],
  ["M", "measure with plain drags, or the selected event"],
  ["F", "fit the selection, else the steps; twice: the whole run"],
  ["0", "the whole run"],
  ["/", "search; Enter and N next match, Shift+Enter and P previous"],
  ["click", "select an event; double-click zooms to it"],
  [",  .", "previous, next event on the row"],
  ["click a name", "close or open a track or device"],
  ["Esc", "drop measure, selection, search"],
  ["?", "this help"],
];

/** The frame: toolbar, canvases, details, tooltip, help. Handlers come from the timeline. */
export function frame(on) {
  const tool = (mode, label, title) =>
    make("button", { type: "button", class: "tool", "data-mode": mode, title, "aria-pressed": "false", onclick: () => on.mode(mode) }, label);
  const button = (label, title, handler, name) =>
    make("button", { type: "button", class: "small", title, "aria-label": title, "data-do": name, onclick: handler }, label);
  const search = make("input", {
    type: "search", class: "search", placeholder: "Search ops, kinds, scopes  ( / )", "aria-label": "Search events", maxlength: 200,
    spellcheck: "false", autocomplete: "off",
  });
  const found = make("span", { class: "found", "aria-live": "polite" });
  const link = make("button", { type: "button", class: "tool", title: "Move all linked timelines together", hidden: true, "aria-pressed": "true", onclick: () => on.link() }, "Linked");
  const where = make("span", { class: "where" });
  const bar = make(
    "div", { class: "bar", role: "toolbar", "aria-label": "Timeline tools" },
    make("div", { class: "find" }, search, found, button("↑", "Previous match (P)", () => on.match(-1), "previous"), button("↓", "Next match (N)", () => on.match(1), "next")),
    make("div", { class: "modes", role: "group", "aria-label": "What a drag does" },
      tool("pan", "Move", "Drag to move"), tool("zoom", "Zoom", "Drag to zoom to a stretch"), tool("measure", "Measure", "Drag to measure (M, or Shift and drag)")),
    button("−", "Zoom out (S)", () => on.zoom(1.6), "out"), button("+", "Zoom in (W)", () => on.zoom(1 / 1.6), "in"),
    button("Fit", "Fit the selection or the steps (F)", () => on.fit(), "fit"), link, where,
    button("?", "Keys and gestures (?)", () => on.help(), "help"),
  );
  const scene = make("canvas", { class: "scene", "aria-hidden": "true" });
  const overlay = make("canvas", { class: "overlay", "aria-hidden": "true" });
  const tip = make("div", { class: "tip", role: "tooltip", hidden: true });
  const help = make("div", { class: "help", role: "dialog", "aria-label": "Keys and gestures", hidden: true },
    make("h3", {}, "Keys and gestures"),
    make("dl", {}, ...KEYS.flatMap(([keys, text]) => [make("dt", {}, keys), make("dd", {}, text)])),
    make("p", { class: "soft" }, "Bars as high as the row are single events. Lower ones stand for several that are too short to draw: their height is the share of time in which something runs, their colour the kind with most of it."),
    button("Close", "Close (Esc)", () => on.help(), "close"));
  const stage = make("div", {
    class: "stage", tabindex: "0", role: "application", "aria-roledescription": "timeline",
    "aria-keyshortcuts": "W A S D F M / ?",
  }, scene, overlay, tip, help);
  const details = make("div", { class: "details" });
  const legend = make("div", { class: "legend", "aria-label": "Colours" });
  const live = make("div", { class: "live", "aria-live": "polite" });
  const root = make("div", { class: "timeline" }, bar, stage, make("div", { class: "foot" }, details, legend), live);
  return { root, bar, search, found, link, where, stage, scene, overlay, tip, help, details, legend, live };
}

function kindOf(item) {
  return item.kind.replaceAll("_", " ");
}

function swatch(theme, colour) {
  const mark = make("span", { class: "swatch" });
  mark.style.background = theme.fills[colour];
  return mark;
}

/** The lines of the tooltip of what the pointer is over. */
export function tipOf(hover, { items, theme, colours, origin }) {
  if (hover.event) {
    const { event } = hover, item = items.get(event.item);
    if (!item) return [make("b", {}, "Event"), line("", "Zoom in for its name"), line("duration", duration(event.length))];
    return [
      make("b", {}, swatch(theme, item.colour), item.name),
      line("", [kindOf(item), item.category].filter(Boolean).join(" · ")),
      line("duration", duration(event.length)),
      event.self !== event.length ? line("self", duration(event.self)) : null,
      line("start", exact(event.start + origin)),
      item.scope ? line("scope", item.scope) : null,
      item.module && item.kind !== "program" ? line("program", item.module) : null,
      line("on", `${hover.line.track.name} · ${hover.line.group.name}`),
    ];
  }
  const { block } = hover;
  const label = colours[block.colour][1];
  return [
    make("b", {}, swatch(theme, block.colour), `${count(block.count)} events`),
    line("", label ? `most of the time ${label}` : "too short to draw one by one"),
    line("in", duration(block.length)),
    line("busy", `${duration(block.busy)}, ${percent(block.length > 0 ? block.busy / block.length : 1)}`),
    block.hits ? line("found", count(block.hits)) : null,
    line("start", exact(block.start + origin)),
    line("", "Zoom in to see each (double-click)"),
  ];
}

/** The lines of the tooltip of a name at the left. */
export function tipOfLine({ track, group }) {
  if (!track) return [make("b", {}, group.name), group.note ? line("", group.note) : null];
  return [make("b", {}, track.name), line("", track.about), line("events", count(track.events))];
}

function line(name, text) {
  return make("div", { class: "line" }, name ? make("span", { class: "soft" }, name) : null, make("span", {}, text));
}

/** The details of the selected event; each number with its definition. */
export function detailsOf(selected, where, { items, theme, about, origin }, actions) {
  const item = items.get(selected.item);
  const fact = (name, text, definition) =>
    text ? make("div", { class: "fact", title: definition ?? "" }, make("span", { class: "soft" }, name), make("span", { class: "value" }, text)) : null;
  return [
    make("div", { class: "name" }, swatch(theme, item?.colour ?? 0), make("b", {}, item?.name ?? "Event"),
      make("button", { type: "button", class: "small", title: "Search for this name", onclick: () => actions.find(item?.name ?? "") }, "find all"),
      make("button", { type: "button", class: "small", title: "Drop the selection (Esc)", "aria-label": "Drop the selection", onclick: actions.drop }, "×")),
    make("div", { class: "facts" },
      fact("duration", duration(selected.length), about.duration),
      fact("self", duration(selected.self), about.self),
      fact("start", exact(selected.start + origin), about.start),
      fact("kind", item ? [kindOf(item), item.category].filter(Boolean).join(" · ") : "", "What the event is, and the category that the trace states."),
      fact("scope", item?.scope, about.scope),
      fact("program", item?.kind === "program" ? "" : item?.module, "The program it belongs to."),
      fact("source", item?.source, "The source line, where the trace states it."),
      fact("on", where ? `${where.track.name} · ${where.group.name}` : "", "Track and device.")),
  ];
}

/** The colours in use. */
export function legendOf(used, { theme, colours }) {
  const known = colours.map(([, label], at) => [at, label]).filter(([at, label]) => label && used.has(at));
  return known.map(([at, label]) => make("span", { class: "entry" }, swatch(theme, at), label));
}
