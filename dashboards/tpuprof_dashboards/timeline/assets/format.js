// Times for people. Every time here is a number of picoseconds.

const UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];

/** A duration with the largest unit that keeps it at or above 1, four digits: `784.2 ms`. */
export function duration(ps) {
  if (ps == null || Number.isNaN(ps)) return "unknown";
  if (ps === 0) return "0 ps";
  // 999 999 ps are 1 µs in four digits, not 1000 ns: the unit is that of the rounded value.
  const rounded = Number(Math.abs(ps).toPrecision(4));
  const [scale, unit] = UNITS.find(([size]) => rounded >= size) ?? UNITS[4];
  return `${Number((Math.sign(ps) * rounded / scale).toPrecision(4))} ${unit}`;
}

/** A time to the picosecond, in thin groups of three: `18.716 083 984 988 s`. */
export function exact(ps) {
  const sign = ps < 0 ? "−" : "";
  const whole = BigInt(Math.round(Math.abs(ps)));
  const size = whole >= 1000000000000n ? 12 : whole >= 1000000000n ? 9 : whole >= 1000000n ? 6 : whole >= 1000n ? 3 : 0;
  if (size === 0) return `${sign}${whole} ps`;
  const scale = 10n ** BigInt(size);
  const groups = (whole % scale).toString().padStart(size, "0").match(/\d{3}/g);
  while (groups.length && groups[groups.length - 1] === "000") groups.pop();
  const unit = { 12: "s", 9: "ms", 6: "µs", 3: "ns" }[size];
  return `${sign}${whole / scale}${groups.length ? "." + groups.join("\u2009") : ""} ${unit}`;
}

/** A count with thin groups of three. */
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** A share of at most 1 in percent; never 0 % or 100 % unless it is. */
export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  return `${Number((100 * share).toFixed(share < 0.1 ? 1 : 0))} %`;
}

/**
 * Ticks of a ruler over [t0, t1): `{step, base, unit, at}`.
 *
 * Labels count from `base`, so that they stay short however deep the view is in a long run.
 */
export function ticks(t0, t1, wanted) {
  const rough = Math.max((t1 - t0) / Math.max(wanted, 1), 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((m) => m * power >= rough) ?? 10);
  const base = Math.trunc(t0 / (1000 * step)) * 1000 * step;
  const at = [];
  for (let n = Math.ceil(t0 / step), guard = 0; n * step <= t1 && guard < 1000; n++, guard++) at.push(n * step);
  const far = Math.max(...at.map((t) => Math.abs(t - base)), step);
  const unit = UNITS.find(([size]) => far >= size && step >= size / 1000) ?? UNITS[4];
  return { step, base, unit, at };
}

/** The label of a tick. */
export function tickLabel(t, { step, base, unit: [scale, name] }) {
  const digits = Math.min(Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)), 12);
  return `${base && t >= base ? "+" : ""}${((t - base) / scale).toFixed(digits)} ${name}`;
}
