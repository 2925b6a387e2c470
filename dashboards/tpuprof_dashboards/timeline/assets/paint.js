// Painting. Texts from traces go through fillText alone, so that nothing in them can be markup.

import { duration, exact, tickLabel, ticks } from "./format.js";
import { SIZES, visible } from "./layout.js";
import { firstAfter } from "./store.js";

const UNKNOWN_COLOUR = 14; // that of containers: a quiet grey
const LABEL_PX = 32;
const DIM = 0.18;
const GROWN_PX = 5;

/** Paints everything but what follows the pointer; returns how many entries it drew. */
export function paintScene(context, scene) {
  const { width, height, theme, plan, scroll, top } = scene;
  context.globalAlpha = 1;
  context.fillStyle = theme.page;
  context.fillRect(0, 0, width, height);
  const from = scroll, to = scroll + height - top;
  // The ruler counts as the tables do, the rest from the start of the timeline, where numbers are small.
  const grid = ticks(scene.t0 + scene.origin, scene.t1 + scene.origin, (width - scene.gutter) / 110);
  context.save();
  context.beginPath();
  context.rect(scene.gutter, top, width - scene.gutter, height - top);
  context.clip();
  context.fillStyle = theme.faint;
  for (const t of grid.at) context.fillRect(Math.round(scene.x(t - scene.origin)), top, 1, height - top);
  let drawn = 0;
  const rows = visible(plan.rows, from, to);
  for (const row of rows) drawn += paintRow(context, scene, row, row.y - scroll + top);
  context.restore();
  paintHeads(context, scene);
  paintRuler(context, scene, grid);
  paintOverview(context, scene);
  paintScrollbar(context, scene);
  return drawn;
}

function paintRow(context, scene, { row, height, line }, y) {
  const { store, theme, query, t0, t1, scale } = scene;
  const { found, missing } = store.pieces(row, t0, t1, scene);
  const flat = !line.open;
  const top = y + 1, tall = height - (flat ? 3 : 2);
  const labels = [];
  let drawn = 0;
  for (const [a, b] of missing) {
    // Not there yet: said by a hatch rather than by an emptiness that looks like idle time.
    const from = Math.max(a, 0), to = Math.min(b, scene.span);
    context.fillStyle = theme.hatch;
    if (to > from) context.fillRect(scene.x(from), top, (to - from) * scale, tall);
  }
  for (const { window, at, t0: a, t1: b } of found) {
    const left = scene.x(a), right = scene.x(b);
    const origin = scene.x(window.t0);
    const searching = Boolean(query);
    drawn += paintBlocks(context, scene, { window, at, origin, left, right, top, tall, from: a - window.t0, to: b - window.t0 });
    const { start, length, item } = window.events;
    const end = window.eventsOf[at + 1];
    const upTo = b - window.t0;
    context.globalAlpha = 1;
    let style = -1, alpha = 1;
    for (let i = firstAfter(start, length, window.eventsOf[at], end, a - window.t0); i < end && start[i] < upTo; i++) {
      const what = store.items.get(item[i]);
      const colour = what === undefined ? UNKNOWN_COLOUR : what.colour;
      const x0 = Math.max(origin + start[i] * scale, left);
      const x1 = Math.min(origin + (start[i] + (length[i] || 0)) * scale, right);
      const w = Math.max(x1 - x0, 1);
      const wanted = searching && what?.found !== query ? DIM : 1;
      if (wanted !== alpha) context.globalAlpha = alpha = wanted;
      if (colour !== style) context.fillStyle = theme.fills[(style = colour)];
      context.fillRect(x0, top, w > 3 && x1 < right ? w - 0.75 : w, tall); // a gap where it ends, none where a window does
      drawn++;
      const here = start[i] >= a - window.t0 || a === t0; // where two windows meet, an event is told of once
      if (!flat && here && w > LABEL_PX && what !== undefined) labels.push(x0, w, what, alpha);
    }
  }
  context.globalAlpha = 1;
  if (labels.length) {
    context.font = `${tall >= 15 ? 11 : 10}px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (let k = 0; k < labels.length; k += 4) {
      const [x, w, what, alpha] = labels.slice(k, k + 4);
      const text = scene.fitter.fit(context, what.name, w - 8);
      if (!text) continue;
      context.globalAlpha = alpha < 1 ? 0.5 : 1;
      context.fillStyle = alpha < 1 ? theme.ink : theme.inks[what.colour];
      context.fillText(text, x + 4, top + tall / 2 + 0.5);
    }
    context.globalAlpha = 1;
  }
  return drawn;
}

/**
 * Blocks: as high as the share of their time in which something ran, never less than a quarter.
 *
 * One that has grown wide, because what it stands for is still on its way, is pale and hatched: it must not look like an event.
 */
function paintBlocks(context, scene, { window, at, origin, left, right, top, tall, from, to }) {
  const { theme, query, scale } = scene;
  const { start, span, busy, hits, colour } = window.blocks;
  const end = window.blocksOf[at + 1];
  const dims = query && window.query === query;
  let drawn = 0, style = -1;
  for (let i = firstAfter(start, span, window.blocksOf[at], end, from); i < end && start[i] < to; i++) {
    const x0 = Math.max(origin + start[i] * scale, left);
    const x1 = Math.min(origin + (start[i] + span[i]) * scale, right);
    const share = span[i] > 0 ? busy[i] / span[i] : 1;
    const h = Math.max(tall * share, tall / 4);
    const grown = x1 - x0 > GROWN_PX;
    context.globalAlpha = dims && !hits[i] ? DIM : grown ? 0.35 : 1;
    if (colour[i] !== style) context.fillStyle = theme.fills[(style = colour[i])];
    context.fillRect(x0, top + tall - h, Math.max(x1 - x0, 1), h);
    if (grown) {
      context.globalAlpha = 1;
      context.fillStyle = theme.hatch;
      context.fillRect(x0, top + tall - h, x1 - x0, h);
      style = -1;
    }
    drawn++;
  }
  return drawn;
}

function paintHeads(context, scene) {
  const { width, height, theme, plan, scroll, top, hover } = scene;
  context.save();
  context.beginPath();
  context.rect(0, top, width, height - top);
  context.clip();
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = theme.page;
  context.fillRect(0, top, scene.gutter, height - top);
  context.fillStyle = theme.rule;
  context.fillRect(scene.gutter - 1, top, 1, height - top);
  for (const line of plan.lines) {
    const y = line.y - scroll + top;
    if (y > height || y + line.height < top) continue;
    if (!line.track) {
      context.fillStyle = theme.raised;
      context.fillRect(0, y, line.sketched ? scene.gutter - 1 : width, line.height);
      if (line.sketched) {
        context.fillStyle = theme.rule;
        context.fillRect(scene.gutter, y + line.height - 1, width - scene.gutter, 1);
      }
      caret(context, 9, y + line.height / 2, line.open, theme.soft);
      context.fillStyle = theme.ink;
      context.font = `600 12px ${theme.font}`;
      context.fillText(scene.fitter.fitCore(context, line.group.name, (line.sketched ? scene.gutter : width) - 28), 20, y + line.height / 2 + 0.5);
      if (line.group.note && !line.sketched) {
        const x = 28 + context.measureText(line.group.name).width;
        context.fillStyle = theme.soft;
        context.font = `11px ${theme.font}`;
        context.fillText(scene.fitter.fit(context, line.group.note, width - x - 24), x, y + line.height / 2 + 0.5);
      }
      continue;
    }
    context.fillStyle = theme.rule;
    context.fillRect(scene.gutter, y + line.height + 2, width - scene.gutter, 1);
    const middle = Math.min(Math.max(y, top), y + line.height - SIZES.thin) + 8.5; // the label stays while its rows are in view
    caret(context, 17, middle, line.open, theme.soft);
    context.fillStyle = hover?.line === line ? theme.accent : theme.ink;
    context.font = `12px ${theme.font}`;
    context.fillText(scene.fitter.fit(context, line.track.name, scene.gutter - 38), 27, middle + 0.5);
  }
  context.restore();
}

function caret(context, x, y, open, colour) {
  context.fillStyle = colour;
  context.beginPath();
  if (open) {
    context.moveTo(x - 4, y - 2.5);
    context.lineTo(x + 4, y - 2.5);
    context.lineTo(x, y + 3);
  } else {
    context.moveTo(x - 2.5, y - 4);
    context.lineTo(x + 3, y);
    context.lineTo(x - 2.5, y + 4);
  }
  context.fill();
}

function paintRuler(context, scene, grid) {
  const { width, theme, top } = scene;
  const y = top - SIZES.ruler;
  context.fillStyle = theme.page;
  context.fillRect(0, y, width, SIZES.ruler);
  context.fillStyle = theme.rule;
  context.fillRect(0, top - 1, width, 1);
  context.font = `11px ${theme.font}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.fillStyle = theme.soft;
  const base = grid.base ? `${baseLabel(grid.base)} +` : "";
  context.fillText(scene.fitter.fit(context, base, scene.gutter - 20), scene.gutter - 8, y + 12);
  context.textAlign = "left";
  for (const t of grid.at) {
    const x = Math.round(scene.x(t - scene.origin));
    if (x < scene.gutter) continue;
    context.fillStyle = theme.soft;
    context.fillRect(x, top - 7, 1, 6);
    if (x + 40 < width) context.fillText(tickLabel(t, grid), x + 4, y + 11);
  }
}

/** The time that the labels of the ruler count from. */
function baseLabel(ps) {
  const units = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"]];
  const [scale, unit] = units.find(([size]) => Math.abs(ps) >= size) ?? [1, "ps"];
  return `${Number((ps / scale).toPrecision(14))} ${unit}`;
}

/** The whole run in a strip: how busy its devices are, and what part of it is in view. */
function paintOverview(context, scene) {
  const { width, theme, span, overview, t0, t1 } = scene;
  const left = scene.gutter, room = width - scene.gutter, h = SIZES.overview;
  context.fillStyle = theme.page;
  context.fillRect(0, 0, width, h);
  context.fillStyle = theme.faint;
  context.fillRect(left, 2, room, h - 4);
  const each = room / Math.max(overview.length, 1);
  context.fillStyle = theme.soft;
  context.globalAlpha = 0.55;
  overview.forEach((share, n) => {
    if (share > 0) {
      const tall = Math.max(share * (h - 6), 1);
      context.fillRect(left + n * each, h - 3 - tall, Math.max(each, 1), tall);
    }
  });
  const x0 = left + (t0 / span) * room, x1 = left + (t1 / span) * room;
  context.globalAlpha = 0.62;
  context.fillStyle = theme.page;
  context.fillRect(left, 2, Math.max(x0 - left, 0), h - 4);
  context.fillRect(x1, 2, Math.max(width - x1, 0), h - 4);
  context.globalAlpha = 1;
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  context.strokeRect(Math.max(x0, left) + 0.75, 2.75, Math.max(Math.min(x1, width) - Math.max(x0, left) - 1.5, 2), h - 5.5);
  context.fillStyle = theme.soft;
  context.font = `11px ${theme.font}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.fillText(`whole run ${duration(span)}`, left - 8, h / 2);
  context.textAlign = "left";
}

function paintScrollbar(context, scene) {
  const bar = scrollbar(scene);
  if (!bar) return;
  context.globalAlpha = 0.45;
  context.fillStyle = scene.theme.soft;
  context.beginPath();
  context.roundRect(scene.width - 8, bar.y, 6, bar.height, 3);
  context.fill();
  context.globalAlpha = 1;
}

/** Where the scrollbar's thumb is; null if everything fits. */
export function scrollbar({ height, top, plan, scroll }) {
  const room = height - top;
  if (plan.height <= room) return null;
  const tall = Math.max((room * room) / plan.height, 24);
  return { y: top + (scroll / (plan.height - room)) * (room - tall), height: tall, room, track: room - tall };
}

/** What follows the pointer: crosshair, what it is over, the selection, matches, the measured and the zoomed stretch. */
export function paintOverlay(context, scene) {
  const { width, height, theme, top, pointer, hover, selected, measure, band, scroll, plan } = scene;
  context.clearRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(scene.gutter, 0, width - scene.gutter, height);
  context.clip();
  const outline = (what, colour, thick) => {
    const row = plan.rows.find((each) => each.row === what.row);
    if (!row) return;
    const x0 = scene.x(what.start), w = Math.max((what.length || 0) * scene.scale, 2);
    const y = row.y - scroll + top;
    if (y + row.height < top || y > height) return;
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.strokeRect(x0 - thick / 2, Math.max(y + 1, top) - thick / 2, w + thick / 2, row.height - 2 + thick);
  };
  if (measure || band) {
    const { t0, t1 } = measure ?? band;
    const a = scene.x(Math.min(t0, t1)), b = scene.x(Math.max(t0, t1));
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.12;
    context.fillRect(a, top, b - a, height - top);
    context.globalAlpha = 1;
    context.fillRect(a, top - 8, 1, height);
    context.fillRect(b, top - 8, 1, height);
    tag(context, scene, duration(Math.abs(t1 - t0)), (Math.max(a, scene.gutter) + Math.min(b, width)) / 2, top + 4, theme.accent);
  }
  if (selected) outline(selected, theme.ink, 2);
  const over = hover?.event ?? hover?.block;
  if (over) outline(over, theme.dark ? "#ffffff" : "#000000", 1);
  if (pointer && pointer.x > scene.gutter && !band) {
    context.fillStyle = theme.soft;
    context.globalAlpha = 0.7;
    context.fillRect(Math.round(pointer.x), top - SIZES.ruler, 1, height);
    context.globalAlpha = 1;
    // No more digits than a pixel can tell apart.
    const grain = 10 ** Math.max(Math.floor(Math.log10(1 / scene.scale)), 0);
    tag(context, scene, exact(Math.round((scene.time(pointer.x) + scene.origin) / grain) * grain), pointer.x, top - SIZES.ruler + 1, theme.rule);
  }
  context.restore();
}

function tag(context, scene, text, x, y, colour) {
  context.font = `600 11px ${scene.theme.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const w = context.measureText(text).width + 14;
  const at = Math.min(Math.max(x, scene.gutter + w / 2), scene.width - w / 2);
  context.fillStyle = scene.theme.page;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  context.roundRect(at - w / 2, y, w, 20, 4);
  context.fill();
  context.stroke();
  context.fillStyle = scene.theme.ink;
  context.fillText(text, at, y + 10.5);
  context.textAlign = "left";
}
