"""What is known of an op, joined from the trace's metadata and the HLO."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tpuprof.errors import HloError
from tpuprof.formats.xspace import EventMeta
from tpuprof.hlo import HloModule, Instruction, parse_instruction_text
from tpuprof.tables.classify import classify_event
from tpuprof.tables.programs import MASK64, Programs
from tpuprof.tables.rows import OpFacts, OpInfo, module_label
from tpuprof.tables.stated import stated_cost


def op_info(facts: OpFacts, programs: Programs) -> OpInfo:
    """An op's facts; the HLO fills what the trace leaves open.

    Args:
        facts: what the trace says.
        programs: the HLO of the run.
    """
    name, text, program_id, module_name = facts.name, facts.text, facts.program_id, facts.module_name
    module = programs.find(program_id, module_name)
    instruction = module.find(name) if module is not None else None
    parsed = instruction
    if parsed is None and text and text.lstrip().startswith(("%", "ROOT")):
        try:
            parsed = parse_instruction_text(text)
        except HloError:
            parsed = None
    cls = classify_event(name=name, text=text, category=facts.category, instr=instruction, module=module)
    if facts.is_kernel:
        cls = replace(cls, phase="sync", async_class=None)
    try:
        hlo_scope, hlo_source = hlo_place(instruction, module)
    except HloError as error:  # an instruction is parsed when it is first looked at
        programs.damaged(program_id, error, part=True)
        hlo_scope, hlo_source = None, None
    shown = module_name if module_name is not None else (module.name if module is not None else None)
    return OpInfo(
        name=name,
        cls=cls,
        program_id=program_id,
        module=module_label(shown, program_id) if shown is not None else None,
        category=facts.category,
        scope=_clean_scope(facts.scope) or hlo_scope,
        source=facts.source or hlo_source,
        instruction=parsed,
        program=module,
        text=text,
        stated=facts.stated,
    )


def facts_of_meta(meta: EventMeta, module_names: dict[int, str], extra: dict[str, Any]) -> OpFacts:
    """The op that a TPU event metadata entry describes; ``extra`` are stats found on the event instead."""
    stats = {**meta.stats, **extra}
    program_id = stats.get("program_id")
    program_id = program_id & MASK64 if isinstance(program_id, int) else None
    return OpFacts(
        meta.label,
        text=meta.name,
        program_id=program_id,
        module_name=module_names.get(program_id) if program_id is not None else None,
        category=_text(stats.get("hlo_category")),
        scope=_text(stats.get("tf_op")),
        source=_text(stats.get("source")),
        stated=stated_cost(stats),
    )


def hlo_place(instruction: Instruction | None, module: HloModule | None) -> tuple[str | None, str | None]:
    """Scope path and source line from the HLO; a fusion without its own takes its root's."""
    seen = 0
    while instruction is not None and seen < 8:
        meta = instruction.metadata
        scope = meta.op_name or None
        source = f"{meta.source_file}:{meta.source_line}" if meta.source_file else None
        if scope or source or module is None or instruction.opcode != "fusion":
            return scope, source
        called = instruction.called_by_role("calls")
        instruction = module.computation(called[0]).root if called else None
        seen += 1
    return None, None


def _clean_scope(text: str | None) -> str | None:
    if not text:
        return None
    text = text.rstrip(":")
    return None if text in ("", "XlaModule") else text


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace") or None
    return str(value) if value not in (None, "") else None
