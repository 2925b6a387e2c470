// What the browser holds of a timeline: the windows that Python sent, best first, and what their events are.

const KEPT_WINDOWS = 24;

/** Columns of an Arrow table as typed arrays. */
export function columns(table, names) {
  const found = {};
  for (const name of names) found[name] = table.getChild(name).toArray();
  return found;
}

/** For each row of a window where its entries begin, and behind the last one where they end. */
export function offsets(row, rows) {
  const first = new Int32Array(rows + 1);
  for (let i = 0; i < row.length; i++) first[row[i] + 1]++;
  for (let r = 0; r < rows; r++) first[r + 1] += first[r];
  return first;
}

/** The first index in [from, to) whose entry ends after `t`; ends ascend, as entries of a row are disjoint. */
export function firstAfter(start, length, from, to, t) {
  let low = from, high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    const end = start[middle] + (length[middle] || 0);
    if (end < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Store {
  constructor() {
    this.windows = [];
    this.items = new Map();
  }

  /** Takes what Python sent; returns the window. */
  add(data) {
    const { window: about, items, texts } = data;
    const events = columns(data.events, ["row", "start", "length", "self", "item", "position"]);
    const blocks = columns(data.blocks, ["row", "start", "span", "busy", "count", "hits", "colour"]);
    const rows = new Map(about.rows.map((row, at) => [row, at]));
    const window = {
      ...about, rows, events, blocks,
      eventsOf: offsets(events.row, about.rows.length),
      blocksOf: offsets(blocks.row, about.rows.length),
    };
    for (const [number, name, colour, kind, scope, source, module, category, found] of items) {
      const known = this.items.get(number);
      this.items.set(number, {
        number, name, colour, kind: texts[kind], scope: texts[scope], source: texts[source], module: texts[module],
        category: texts[category], found: found ? about.query : known?.found,
      });
    }
    this.windows = this.windows.filter((w) => w.number !== window.number || w.t0 !== window.t0 || w.t1 !== window.t1);
    this.windows.push(window);
    if (this.windows.length > KEPT_WINDOWS) this.windows.splice(1, 1); // the first one is the backdrop
    return window;
  }

  /**
   * Which window shows which part of [t0, t1) of a row: `{found: [{window, at, t0, t1}], missing: [[t0, t1]]}`.
   *
   * Where several hold a part it is the finest one, but none is better than another for being finer than buckets of
   * `1 << level`, which is what can be seen; of equals the one that knows the search, then the newest.
   */
  pieces(row, t0, t1, { level = 0, query = "" } = {}) {
    const having = this.windows
      .map((window, age) => ({ window, age, at: window.rows.get(row), knows: Number(window.query === query) }))
      .filter(({ at, window }) => at !== undefined && window.t0 < t1 && window.t1 > t0)
      .sort((a, b) => Math.max(a.window.level, level) - Math.max(b.window.level, level) || b.knows - a.knows || b.age - a.age);
    const found = [];
    let open = [[t0, t1]];
    for (const { window, at } of having) {
      const rest = [];
      for (const [from, to] of open) {
        const a = Math.max(from, window.t0), b = Math.min(to, window.t1);
        if (a >= b) {
          rest.push([from, to]);
          continue;
        }
        found.push({ window, at, t0: a, t1: b });
        if (from < a) rest.push([from, a]);
        if (b < to) rest.push([b, to]);
      }
      open = rest;
      if (!open.length) break;
    }
    return { found, missing: open };
  }

  /** Whether a finer window would show more of a row in [t0, t1): something is missing, or shorter than `1 << level`. */
  needs(row, t0, t1, level) {
    const { found, missing } = this.pieces(row, t0, t1, { level });
    if (missing.length) return true;
    return found.some(({ window, at, t0: a, t1: b }) => {
      if (window.level <= level) return false;
      const { start, span } = window.blocks;
      const to = window.blocksOf[at + 1];
      const i = firstAfter(start, span, window.blocksOf[at], to, a - window.t0);
      return i < to && start[i] + window.t0 < b;
    });
  }

  /** What lies at time `t` on a row, within `slack`: `{event: …}`, `{block: …}` or null. */
  hit(row, t, slack) {
    let best = null, nearest = Infinity;
    const consider = (distance, make) => {
      if (distance <= slack && distance < nearest) {
        nearest = distance;
        best = make();
      }
    };
    for (const { window, at } of this.pieces(row, t - slack, t + slack).found) {
      const local = t - window.t0;
      const { start, length } = window.events;
      const lastEvent = window.eventsOf[at + 1];
      for (let i = firstAfter(start, length, window.eventsOf[at], lastEvent, local - slack); i < lastEvent; i++) {
        if (start[i] > local + slack) break;
        const end = start[i] + (length[i] || 0);
        consider(Math.max(start[i] - local, local - end, 0), () => ({ event: this.event(window, at, i, row) }));
      }
      const { start: from, span } = window.blocks;
      const lastBlock = window.blocksOf[at + 1];
      for (let i = firstAfter(from, span, window.blocksOf[at], lastBlock, local - slack); i < lastBlock; i++) {
        if (from[i] > local + slack) break;
        consider(Math.max(from[i] - local, local - from[i] - span[i], 0), () => ({ block: this.block(window, i, row) }));
      }
    }
    return best;
  }

  /** One event of a window. */
  event(window, at, i, row) {
    const { start, length, self, item, position } = window.events;
    return {
      row, position: position[i], item: item[i], start: start[i] + window.t0, length: length[i],
      self: Number.isNaN(self[i]) ? length[i] : self[i],
    };
  }

  /** One block of a window. */
  block(window, i, row) {
    const { start, span, busy, count, hits, colour } = window.blocks;
    return { row, start: start[i] + window.t0, length: span[i], busy: busy[i], count: count[i], hits: hits[i], colour: colour[i] };
  }

  /** The event before or after a time on a row that is shown by itself; null if none is held. */
  neighbour(row, time, position, direction, t0, t1) {
    let best = null;
    for (const { window, at } of this.pieces(row, t0, t1).found) {
      for (let i = window.eventsOf[at]; i < window.eventsOf[at + 1]; i++) {
        const here = window.events.position[i];
        if (direction > 0 ? here <= position : here >= position) continue;
        if (best === null || (direction > 0 ? here < best.position : here > best.position)) {
          best = this.event(window, at, i, row);
        }
      }
    }
    return best;
  }
}
