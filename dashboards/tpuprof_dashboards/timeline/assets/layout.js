// Where groups, tracks and rows are, from top to bottom.

export const SIZES = { overview: 30, ruler: 24, head: 24, row: 18, thin: 15, slim: 12, flat: 9, gap: 5 };

/** Where the tracks begin: below overview and ruler. */
export const TOP = SIZES.overview + SIZES.ruler;

/** The shortest stretch that can be in view, in ps. */
export const MIN_SPAN = 20;

/** By which timelines of a page tell each other what is in view. */
export const LINK_EVENT = "tpuprof-timeline-view";

/** How wide the names at the left are. */
export function gutterOf(width) {
  return Math.round(Math.min(208, Math.max(96, width * 0.26)));
}

/**
 * Lays a timeline out: `{lines, rows, height}`.
 *
 * `lines` are heads of groups and tracks, in order of `y`; `rows` are the rows of tracks that are shown, in order of `y`.
 * A closed track shows its outermost row flat; a closed device shows its ops in its head, a closed host nothing.
 */
export function layOut(groups, closed) {
  const lines = [], rows = [];
  let y = 0;
  groups.forEach((group, g) => {
    const key = `g${g}`;
    const work = group.tracks.find((track) => track.work), open = !closed.has(key);
    lines.push({ key, group, y, height: SIZES.head, open, sketched: !open && work !== undefined });
    if (!open && work) {
      const line = { key, group, track: work, open: false };
      rows.push({ row: work.first, line, y: y + 3, height: SIZES.head - 5, depth: 0 });
    }
    y += SIZES.head;
    if (!open) return;
    group.tracks.forEach((track, t) => {
      const trackKey = `g${g}t${t}`, open = !closed.has(trackKey);
      const each = !open ? SIZES.flat : !group.device ? SIZES.thin : track.rows > 3 && !track.work ? SIZES.slim : SIZES.row;
      const shown = open ? track.rows : 1;
      const line = { key: trackKey, group, track, y, height: Math.max(shown * each, SIZES.thin), open };
      lines.push(line);
      for (let depth = 0; depth < shown; depth++) {
        rows.push({ row: track.first + depth, line, y: y + depth * each, height: each, depth });
      }
      y += line.height + SIZES.gap;
    });
    y += SIZES.gap;
  });
  return { lines, rows, height: y };
}

/** The rows that touch [top, bottom), by bisection. */
export function visible(rows, top, bottom) {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].y + rows[middle].height <= top) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < rows.length && rows[end].y < bottom) end++;
  return rows.slice(low, end);
}

/** Row numbers as ranges `[first, behind the last]`. */
export function ranges(numbers) {
  const found = [];
  for (const n of [...numbers].sort((a, b) => a - b)) {
    const last = found[found.length - 1];
    if (last && last[1] === n) last[1] = n + 1;
    else if (!last || n >= last[1]) found.push([n, n + 1]);
  }
  return found;
}
