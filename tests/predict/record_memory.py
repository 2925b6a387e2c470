"""Compiles the training steps of ``cases`` and writes what the compiler says of their memory; minutes, so outside CI.

python -m tests.predict.record_memory [--again] [--dump FOLDER]

It needs the extra tpu. Steps that are recorded are left alone unless --again is given. Then run `python -m
tests.accuracy`, which puts the table into docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.predict.cases import CASES, OPTIONS, RECORDED, recorded
from tpuprof.hardware import parse_slice
from tpuprof.predict import Compiled, Program, compile_program, compiler_topology

_STEP = Path(__file__).with_name("reference_step.py")


def main() -> int:
    """Does what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.predict.record_memory", description=__doc__)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--dump", type=Path)
    asked = parser.parse_args()
    known = {} if asked.again else recorded()
    for number, case in enumerate(CASES):
        if case.key in known:
            continue
        options = OPTIONS | ({"xla_dump_to": str(asked.dump / str(number))} if asked.dump else {})
        topology = compiler_topology(parse_slice(case.topology))
        found = compile_program(
            Program(f"{_STEP}:lowered", case.arguments()), topology, options=options, timeout_s=1800
        )
        if not isinstance(found, Compiled):
            print(f"{case.key}: {found}", file=sys.stderr)
            return 1
        print(f"{case.key}: {found.memory} in {found.seconds:.0f} s", flush=True)
        known[case.key] = {
            "memory": dict(found.memory), "jax": found.versions.jax, "libtpu": found.versions.libtpu,
        }  # fmt: skip
        steps = {each.key: known[each.key] for each in CASES if each.key in known}
        text = json.dumps({"options": OPTIONS, "steps": steps}, indent=2)
        RECORDED.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
