"""The palette: complete, unique, and told apart by every kind of eye."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tpuprof.palette import LOOKS, part_of_kind
from tpuprof.tables.schemas import COMPUTE_KINDS, OP_KINDS, PARTS

# Simulation of complete colour blindness in linear RGB (Machado, Oliveira and Fernandes 2009, severity 1.0).
EYES = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(color: str, eye: str) -> np.ndarray:
    srgb = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(EYES[eye]) @ linear, 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = np.array(to_xyz) @ seen / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_has_every_part_in_order_with_unique_marks() -> None:
    assert tuple(LOOKS) == PARTS
    for field in ("label", "short", "letter", "light", "dark"):
        assert len({getattr(look, field) for look in LOOKS.values()}) == len(PARTS)
    assert all(len(look.short) <= 8 and len(look.letter) == 1 for look in LOOKS.values())
    assert {part for part, look in LOOKS.items() if look.group == "compute"} == set(COMPUTE_KINDS)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("background", ["light", "dark"])
def test_any_two_parts_stay_apart(eye: str, background: str) -> None:
    colors = [lab(getattr(look, background), eye) for look in LOOKS.values()]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(colors, 2)) >= 20


@pytest.mark.parametrize(("background", "page"), [("light", "#ffffff"), ("dark", "#181c22")])
def test_parts_stand_out_from_the_page(background: str, page: str) -> None:
    for look in LOOKS.values():
        assert np.linalg.norm(lab(getattr(look, background), "normal") - lab(page, "normal")) >= 18


def test_every_op_kind_has_a_look() -> None:
    assert {part_of_kind(kind) for kind in OP_KINDS} <= set(LOOKS)
    assert part_of_kind("collective") == "collective_exposed"
    assert part_of_kind(None) == part_of_kind("what is this") == "other_compute"
