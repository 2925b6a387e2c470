"""The compiler's messages, as libtpu 0.0.42 and 0.0.50 word them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.predict.refusals import Refused, refused

GIB = 2**30
HBM = (
    "Ran out of memory on HBM, the total memory required for HLO temporaries (96.00G) exceeds available HBM (15.75G). "
    "HLO module: jit_f."
)


@pytest.mark.parametrize("start", ["RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: ", "RESOURCE_EXHAUSTED: ", ""])
def test_too_little_hbm_says_both_sizes(start: str) -> None:
    assert refused(start + HBM) == Refused("hbm", start + HBM, 96 * GIB, 15.75 * GIB)


def test_too_little_vmem_says_both_sizes_across_an_instruction() -> None:
    text = (
        "RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom: Ran out of memory in memory space vmem while allocating "
        "on stack for %k = bf16[8]{0} custom-call(%a), kernel_metadata={\n\"x\":\"{}\"\n}. "
        "Scoped allocation with size 35.09M and limit 32.00M exceeded scoped vmem limit by 3.09M."
    )  # fmt: skip
    found = refused(text)
    assert (found.kind, found.needed_bytes, found.available_bytes) == ("vmem", 35.09 * 2**20, 32 * 2**20)


def test_an_unknown_option_is_named() -> None:
    found = refused("INVALID_ARGUMENT: No such compile option: 'xla_tpu_no_such'")
    assert (found.kind, found.option) == ("option", "xla_tpu_no_such")


def test_other_words_are_kept_and_cut() -> None:
    assert refused("INTERNAL: Mosaic failed") == Refused("other", "INTERNAL: Mosaic failed")
    assert refused("E1000: CompileTimeHbmOom: in new words") == Refused("hbm", "E1000: CompileTimeHbmOom: in new words")
    assert len(refused("x" * 100_000).message) == 2_000


def test_a_broken_number_is_unknown() -> None:
    found = refused(HBM.replace("96.00G", "9.6.0G"))
    assert (found.kind, found.needed_bytes, found.available_bytes) == ("hbm", None, 15.75 * GIB)


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    assert refused(text).message == text
