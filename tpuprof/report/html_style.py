"""The style sheet of the HTML report, with the palette as CSS variables."""

from __future__ import annotations

from tpuprof.palette import CHROME, LOOKS, SEVERITY_DARK, SEVERITY_LIGHT


def style() -> str:
    """The style sheet: light, dark by the reader's preference, narrow screens, and print (always light)."""
    parts = "".join(f".p-{part}{{fill:var(--{part});background:var(--{part})}}" for part in LOOKS)
    parts += "".join(f".fill-{n}{{fill:var(--{n})}}.stroke-{n}{{stroke:var(--{n})}}" for n in (*LOOKS, *CHROME))
    dark = f"color-scheme:dark;{_variables(dark=True)}"
    return (
        f":root{{color-scheme:light;{_variables(dark=False)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"{parts}{_RULES}"
    )


def _variables(*, dark: bool) -> str:
    chrome = "".join(f"--{name}:{colors[dark]};" for name, colors in CHROME.items())
    looks = "".join(f"--{part}:{look.dark if dark else look.light};" for part, look in LOOKS.items())
    severities = SEVERITY_DARK if dark else SEVERITY_LIGHT
    return chrome + looks + "".join(f"--{severity}:{color};" for severity, color in severities.items())


_RULES = """
* { box-sizing:border-box }
body {
  margin:0; background:var(--page); color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
  font-variant-numeric:tabular-nums;
}
main { max-width:1080px; margin:0 auto; padding:28px 20px 48px }
header { margin-bottom:20px }
h1 { font-size:22px; line-height:1.25; margin:0 0 4px; overflow-wrap:anywhere }
h1 small {
  display:block; font-size:13px; font-weight:600; color:var(--soft); letter-spacing:.02em; margin-bottom:2px;
}
h2 { font-size:16px; margin:0 0 2px }
p { margin:0 }
.soft { color:var(--soft); font-size:13.5px }
section {
  background:var(--card); border:1px solid var(--line); border-radius:10px; padding:18px 20px; margin:0 0 16px;
}
.figures { display:grid; grid-template-columns:repeat(auto-fit,minmax(104px,1fr)); gap:12px 18px; margin:12px 0 0 }
.figures div { min-width:0 }
.figures dt { color:var(--soft); font-size:12.5px }
.figures dd { margin:0; font-size:18px; font-weight:600; white-space:nowrap }
dl { margin:0 }
svg.bar { display:block; width:100%; border-radius:4px }
svg.bar rect { stroke:var(--card); stroke-width:1px; vector-effect:non-scaling-stroke }
figure { margin:14px 0 0 }
figcaption { color:var(--soft); font-size:13.5px; margin-top:6px }
.wide { overflow-x:auto }
svg.chart { display:block; width:100%; height:auto; min-width:560px; max-width:980px }
.whole { margin:14px 0 10px }
.groups { font-weight:600; margin:0 0 10px }
.notes { margin:12px 0 0; padding:0; list-style:none; color:var(--soft); font-size:13.5px }
.notes li { margin-top:3px }
.notice {
  display:grid; grid-template-columns:78px 1fr; gap:2px 12px; padding:9px 0;
  border-top:1px solid var(--line); align-items:baseline;
}
.notice:first-of-type { border-top:0 }
.notice:last-of-type { padding-bottom:0 }
.notice p { overflow-wrap:anywhere }
.notice b { font-weight:600 }
.tag {
  justify-self:start; font-size:12px; font-weight:600; border:1px solid currentColor; border-radius:99px; padding:0 9px;
}
.tag.info { color:var(--info) }
.tag.warning { color:var(--warning) }
.tag.error { color:var(--error) }
.scroll { overflow-x:auto; margin:10px -20px 0; padding:0 20px }
table { border-collapse:collapse; width:100%; font-size:13.5px }
th {
  font-weight:600; color:var(--soft); text-align:left; border-bottom:1px solid var(--line);
  padding:4px 14px 4px 0; white-space:nowrap;
}
td { border-bottom:1px solid var(--line); padding:5px 14px 5px 0; vertical-align:middle }
tr:last-child td { border-bottom:0 }
th:last-child,td:last-child { padding-right:0 }
.r { text-align:right; white-space:nowrap }
.name {
  font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace; font-size:12.5px;
  overflow-wrap:anywhere; min-width:120px;
}
.scope { min-width:200px; max-width:360px; overflow-wrap:anywhere }
.swatch { display:inline-block; width:11px; height:11px; border-radius:2px; margin-right:8px; vertical-align:-1px }
.kind { white-space:nowrap }
td.meter { width:40%; min-width:48px }
td.cores { width:62%; min-width:180px }
.none { color:var(--soft) }
footer { color:var(--soft); font-size:12.5px }
@media (max-width:640px) {
  main { padding:18px 10px 32px }
  section { padding:14px 14px }
  .scroll { margin:10px -14px 0; padding:0 14px }
  .figures dd { font-size:16px }
}
@media print {
  body { background:#fff; font-size:11px }
  main { max-width:none; padding:0 }
  section { border:0; padding:0; break-inside:auto }
  h2,h2+.soft { break-after:avoid }
  tr,.notice,svg,figure { break-inside:avoid }
  svg.chart { min-width:0 }
  .scroll { overflow:visible; margin:8px 0 0; padding:0 }
  .name,.scope { min-width:62px; font-size:8px }
  table { font-size:9px }
  th,td { padding-right:7px }
  * { print-color-adjust:exact; -webkit-print-color-adjust:exact }
}
"""
