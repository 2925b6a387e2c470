"""The compiled loops: loaded late, cached, and usable where nothing can be cached."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.formats.test_xplane_reader import clean_run

READ = """
    import sys
    from pathlib import Path
    from tpuprof.formats.xplane_reader import read_xplane
    space = read_xplane(Path(sys.argv[1]).read_bytes()).space
    print(space.count_events())
    from tpuprof.formats import _decode, _wire
    stats = [f.stats for f in (_wire.scan_fields, _decode.count_line, _decode.fill_events)]
    print(*(sum(s.cache_hits.values()) for s in stats), *(s.cache_path or "none" for s in stats))
"""


def run(code: str, *args: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    file = tmp_path / "f.xplane.pb"
    file.write_bytes(clean_run().to_bytes())
    for hits in ("0 0 0", "1 1 1"):
        events, cache = run(READ, str(file), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        assert events == "21"
        assert cache.startswith(hits)
        assert str(tmp_path / "cache") in cache


def test_reading_works_where_nothing_can_be_cached(tmp_path: Path) -> None:
    file = tmp_path / "f.xplane.pb"
    file.write_bytes(clean_run().to_bytes())
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the cache directory would have to be")
    no_locator = """
    from numba.core.caching import CacheImpl
    CacheImpl._locator_classes = []
    """
    events, _ = run(READ, str(file), NUMBA_CACHE_DIR=str(blocked))
    assert events == "21"
    events, cache = run(no_locator + READ, str(file))
    assert events == "21"
    assert cache == "0 0 0 none none none"


def test_the_builder_and_the_model_do_not_load_numba() -> None:
    code = """
    import sys
    import tpuprof.formats.xspace, tpuprof.formats.recording, tpuprof.formats.xplane_builder
    tpuprof.formats.xplane_builder.SpaceBuilder().add_plane("p").add_line("l").add_event("e", stats={"k": 1})
    print(sorted({"numba", "pandas", "jax", "pyarrow", "google.protobuf"} & set(sys.modules)))
    """
    assert run(code) == ["[]"]
