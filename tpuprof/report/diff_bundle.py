"""Everything that it takes to look into a comparison, as one zip: redacted, with secrets masked."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from tpuprof._version import __version__
from tpuprof.compare.capture import Capture
from tpuprof.errors import HloError
from tpuprof.export.redact_hlo import redact_hlo
from tpuprof.export.redaction import redactor_for
from tpuprof.masking import MASK, mask_credentials, mask_text
from tpuprof.redact import Redactor
from tpuprof.report.diff import render_diff
from tpuprof.report.plain import to_json

if TYPE_CHECKING:
    from tpuprof.compare.comparison import Diff
    from tpuprof.trace import Trace

MAX_PROGRAMS = 32
_EPOCH = (1980, 1, 1, 0, 0, 0)
_ABOUT = """\
# A comparison made by tpuprof {version}

- `diff.json`: all numbers; `diff.html`, `diff.md`: the same to read
- `SIDE/steps-N.csv`: the step times of each capture, which `tpuprof diff base/steps-1.csv new/steps-1.csv` judges again
- `SIDE/tpuprof.json`: versions, flags and settings that the capture noted
- `SIDE/hlo/NAME.hlo.pb`: the programs that ran, as HloProto

Paths, host and user names, addresses and command lines were taken out and secrets masked. Names of programs, ops,
scopes and source files stay: look before you share.

{missing}
"""


def bundle_bytes(diff: Diff, document: Mapping[str, Any]) -> bytes:
    """The zip. The same comparison gives the same bytes.

    Args:
        diff: the comparison.
        document: its document.
    """
    redactor = joint_redactor([c.trace for c in (*diff.base, *diff.new) if c.trace is not None])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in _files(diff, document, redactor):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, 6)
    return buffer.getvalue()


def joint_redactor(traces: list[Trace]) -> Redactor:
    """One redactor for several runs: the same host or user is the same name in all, others never share one."""
    found: dict[str, str] = {}
    counts = {"host": 0, "user": 0}
    for trace in traces:
        labels: dict[str, str] = {}  # of this run
        names = sorted(redactor_for(trace).names, key=lambda pair: (pair[1], pair[0]))
        for name, label in names:
            if name in found:
                labels.setdefault(label, found[name])
        for name, label in names:
            kind = label.partition("-")[0]
            if label not in labels:
                counts[kind] = counts.get(kind, 0) + 1
                labels[label] = f"{kind}-{counts[kind]}"
            found.setdefault(name, labels[label])
    return Redactor(tuple(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0]))))


def masked(value: Any) -> Any:
    """JSON data without secrets: tokens of well-known services, passwords in addresses, secret-looking settings."""
    if isinstance(value, str):
        return mask_credentials(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        return {
            key: _masked_setting(key, item) if isinstance(item, str) else masked(item) for key, item in items.items()
        }
    if isinstance(value, list):
        return [masked(item) for item in cast("list[Any]", value)]
    return value


def _masked_setting(name: str, value: str) -> str:
    """A text under a name, which may say that it is a secret; its words may be settings of their own."""
    if mask_text(f"{name.replace(' ', '_')}=x").endswith(MASK):
        return MASK
    words = mask_text(value)
    return words if words != " ".join(value.split()) else mask_credentials(value)


def _files(diff: Diff, document: Mapping[str, Any], redactor: Redactor) -> Iterator[tuple[str, bytes]]:
    clean: dict[str, Any] = masked(redactor.json(document))
    missing = [slot.what for slot in diff.evidence if not slot.complete]
    note = f"Missing: {', '.join(missing)}." if missing else "Nothing is missing."
    yield "README.md", _ABOUT.format(version=__version__, missing=note).encode()
    yield "diff.json", to_json(clean).encode()
    yield "diff.html", render_diff(clean, "html").encode("utf-8", "backslashreplace")
    yield "diff.md", render_diff(clean, "md").encode("utf-8", "backslashreplace")
    for side, captures, at in (("base", diff.base, 0), ("new", diff.new, 1)):
        for number, capture in enumerate(captures, 1):
            yield f"{side}/steps-{number}.csv", _steps(capture)
        explained = None if diff.explained is None else diff.explained[at].trace
        if explained is None:
            continue
        if explained.metadata:
            sidecar = masked(redactor.json(dict(explained.metadata)))
            yield f"{side}/tpuprof.json", (json.dumps(sidecar, indent=1, default=str) + "\n").encode()
        for name, data in _programs(explained, redactor):
            yield f"{side}/hlo/{name}.hlo.pb", data


def _steps(capture: Capture) -> bytes:
    lines = ["step_time_ps", *(f"{time:.12g}" for time in capture.samples.step_ps)]
    return ("\n".join(lines) + "\n").encode()


def _programs(trace: Trace, redactor: Redactor) -> Iterator[tuple[str, bytes]]:
    """The HLO of programs that ran, those of most ops first; what cannot be written or checked is left out."""
    from tpuprof.hlo.writer import to_proto

    uses: dict[int, int] = {}
    modules = {id(info.program): info.program for info in trace.built.infos if info.program is not None}
    for info in trace.built.infos:
        if info.program is not None:
            uses[id(info.program)] = uses.get(id(info.program), 0) + 1
    ranked = sorted(modules, key=lambda key: (-uses[key], modules[key].name))
    for number, key in enumerate(ranked[:MAX_PROGRAMS], 1):
        try:
            data = redact_hlo(to_proto(modules[key]), redactor)
        except HloError:
            continue
        if data is not None:
            yield f"{number:02d}-{_file_name(redactor.text(modules[key].name))}", data


def _file_name(name: str) -> str:
    """A name that is safe in any archive."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in name)[:60]
