"""Where a run's collectives go, and what each should take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.roofline.made import MATMUL, US, matmul_run, run_of
from tpuprof.errors import UsageError
from tpuprof.hardware import chip
from tpuprof.roofline import HardwareOptions, roofline
from tpuprof.roofline.collectives import place_of
from tpuprof.trace import Trace

REDUCE = """HloModule jit_f, is_scheduled=true, num_partitions=8

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add.9 = f32[] add(%x, %y)
}

ENTRY %main (a: f32[1048576]) -> f32[1048576] {
  %a = f32[1048576]{0} parameter(0)
  ROOT %all-reduce.1 = f32[1048576]{0} all-reduce(%a), replica_groups=GROUPS, use_global_device_ids=true, \
channel_id=1, to_apply=%sum
}
"""
SIZE = 4 * 1048576


def reduce_run(directory: Path, groups: str = "{{0,1,2,3,4,5,6,7}}", **more: object) -> Trace:
    ops = [("all-reduce.1", 0, 100 * US, "all-reduce")]
    return run_of(directory, REDUCE.replace("GROUPS", groups), ops, 100 * US, **more)


def test_the_slice_is_the_usual_one_of_as_many_devices_as_the_program_is_for(tmp_path: Path) -> None:
    found = roofline(reduce_run(tmp_path))
    assert found.place.where.shape == (2, 4)
    assert found.place.where.chip.name == "v5e"
    assert "8 chips" in found.place.source
    (prediction,) = found.collectives.values()
    # Eight chips of 2x4 receive over two links each, twice for an all-reduce.
    assert prediction.time.seconds == pytest.approx(2 * 7 / 8 * SIZE / (2 * 45e9), rel=0.01)
    (key,) = found.collectives
    assert found.prediction("all-reduce.1", "all_reduce", key[2]) == prediction
    assert found.prediction("all-reduce.2", "all_reduce", key[2]) is None


def test_another_slice_can_be_named(tmp_path: Path) -> None:
    trace = reduce_run(tmp_path)
    named = roofline(trace, HardwareOptions(topology="v5e:4x4"))
    assert (named.place.where.shape, named.place.source) == ((4, 4), "--topology")
    (once,) = named.collectives.values()
    # What the user says of the links holds for the slice that was named, too.
    (twice,) = roofline(trace, HardwareOptions(topology="v5e:4x4", peaks=("ici=90e9",))).collectives.values()
    assert once.time.seconds == pytest.approx(2 * twice.time.seconds)
    with pytest.raises(UsageError):
        roofline(trace, HardwareOptions(topology="v5e:3x"))


def test_two_cores_are_a_chip_on_tpu7x(tmp_path: Path) -> None:
    found = roofline(reduce_run(tmp_path, kind="TPU7x"))
    assert found.place.where.n_chips == 4
    assert found.place.where.n_devices == 8


def test_groups_outside_the_slice_have_no_time_and_a_reason(tmp_path: Path) -> None:
    found = roofline(reduce_run(tmp_path, "{{0,1,2,3,4,5,6,7}}"), HardwareOptions(topology="v5e:2x2"))
    (prediction,) = found.collectives.values()
    assert prediction.time is None
    assert prediction.reason


def test_unknown_hardware_gives_its_reason_to_every_collective(tmp_path: Path) -> None:
    found = roofline(reduce_run(tmp_path, kind="TPU v9x"))
    (prediction,) = found.collectives.values()
    assert prediction.time is None
    assert prediction.reason == found.hardware.reason


def test_a_number_of_chips_that_no_slice_has_asks_for_the_topology(tmp_path: Path) -> None:
    text = REDUCE.replace("num_partitions=8", "num_partitions=7").replace("GROUPS", "{{0,1,2,3,4,5,6}}")
    found = roofline(run_of(tmp_path, text, [("all-reduce.1", 0, 100 * US, "all-reduce")], 100 * US))
    assert found.place.where is None
    assert "--topology" in found.place.reason


def test_gpus_need_no_slice(tmp_path: Path) -> None:
    trace = matmul_run(tmp_path, 100e12)
    h100 = chip("H100-SXM")
    assert place_of(trace, h100, HardwareOptions(), "").where == h100


def test_a_run_without_collectives_has_none(tmp_path: Path) -> None:
    assert roofline(run_of(tmp_path, MATMUL, [("dot.1", 0, US, "convolution")], US)).collectives == {}


def test_a_slice_of_another_chip_is_refused(tmp_path: Path) -> None:
    trace = reduce_run(tmp_path)
    with pytest.raises(UsageError, match="v6e:2x4 is a slice of v6e, but the run is set against v5e") as caught:
        roofline(trace, HardwareOptions(topology="v6e:2x4"))
    assert caught.value.where == "--topology"
    assert "--chip v6e" in caught.value.hint
    assert roofline(trace, HardwareOptions(chip="v6e", topology="v6e:2x4")).place.where.chip.name == "v6e"


def test_a_slice_of_a_chip_that_a_file_describes(tmp_path: Path) -> None:
    file = tmp_path / "chips.toml"
    file.write_text(
        '[chips.mine]\nplatform = "tpu"\nhost_shape = [2, 2]\npod_shape = [16, 16]\n[chips.mine.ici]\ndims = 2\n'
        'links = 4\nwrap_rule = "only_16"\nlink_bandwidth = "100 GB/s"\n'
    )
    found = roofline(reduce_run(tmp_path), HardwareOptions(chip="mine", files=(file,), topology="mine:2x4"))
    (prediction,) = found.collectives.values()
    assert prediction.time.seconds == pytest.approx(2 * 7 / 8 * SIZE / (2 * 100e9), rel=0.01)


def test_collectives_faster_than_their_links_are_told(tmp_path: Path) -> None:
    trace = reduce_run(tmp_path)
    assert [entry.id for entry in roofline(trace).quality] == []
    slow = roofline(trace, HardwareOptions(peaks=("ici=1GB/s",)))
    (entry,) = slow.quality
    assert (entry.id, entry.severity, entry.scope) == ("collective_above_links", "warning", {"ops": ["all-reduce.1"]})
    times = slow.collectives[next(iter(slow.collectives))].time.seconds / 100e-6
    assert f"all-reduce.1 ({times:.2f} times the rate of its links)" in entry.message
    assert "--topology" in entry.message


def test_a_collective_as_large_as_any_number_has_no_size(tmp_path: Path) -> None:
    text = REDUCE.replace("GROUPS", "{{0,1,2,3,4,5,6,7}}").replace("1048576", "9223372036854775807")
    trace = run_of(tmp_path, text, [("all-reduce.1", 0, 100 * US, "all-reduce")], 100 * US)
    assert trace.collectives["bytes"].isna().all()
    assert len(trace.collectives)
