"""Ranges of tasks, and groups of files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_global.addresses import ClusterAddress
from spark_global.iceberg.packing import TASK_RECORDS_MIN, pack_ranges
from spark_global.kept.small_files import FileSize, choose_groups
from spark_global.source.splits import Origin, PartitionRange


def wanted(datacenter: str | None, partition: int, start: int, count: int) -> PartitionRange:
    return PartitionRange(
        cluster=ClusterAddress("nowhere:1"),
        origin=Origin(datacenter, "a"),
        aggregate_topic=f"{datacenter}.a",
        partition=partition,
        start=start,
        end=start + count,
    )


RANGES = st.builds(
    wanted,
    st.sampled_from([None, "JFK", "LGA"]),
    st.integers(0, 50),
    st.integers(0, 1_000),
    st.integers(1, 200_000),
)


@given(st.lists(RANGES, max_size=40), st.integers(1, 16), st.integers(1, 500_000))
def test_every_range_is_in_one_task(
    ranges: list[PartitionRange], tasks: int, records_max: int
) -> None:
    packed = pack_ranges(ranges, tasks, records_max)
    assert sorted(map(repr, ranges)) == sorted(repr(each) for task in packed for each in task)
    for task in packed:
        assert len(task) == 1 or sum(each.end - each.start for each in task) <= records_max


def test_small_partitions_share_a_task_and_large_ones_do_not() -> None:
    small = [wanted("JFK", partition, 0, 10) for partition in range(1_000)]
    assert len(pack_ranges(small, 2, 500_000)) == 1
    large = [wanted("JFK", partition, 0, 5 * TASK_RECORDS_MIN) for partition in range(4)]
    assert len(pack_ranges(large, 2, 500_000)) == 2
    assert len(pack_ranges(large, 2, 5 * TASK_RECORDS_MIN)) == 4


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 120)), max_size=30),
    st.integers(2, 5),
)
def test_groups_have_small_files_of_one_partition(
    files: list[tuple[str, int]], files_min: int
) -> None:
    sizes = {
        f"f{index}": FileSize(f"f{index}", partition, size)
        for index, (partition, size) in enumerate(files)
    }
    groups = choose_groups(sizes.values(), small_bytes=100, target_bytes=150, files_min=files_min)
    chosen = [path for group in groups for path in group]
    assert len(chosen) == len(set(chosen))
    for group in groups:
        members = [sizes[path] for path in group]
        assert len(members) >= files_min
        assert len({each.partition for each in members}) == 1
        assert all(each.size_bytes < 100 for each in members)
        assert sum(each.size_bytes for each in members) <= 150


def test_enough_small_files_become_one() -> None:
    files = [FileSize(f"f{index}", "h", 1) for index in range(4)]
    assert choose_groups(files) == [["f0", "f1", "f2", "f3"]]
    assert choose_groups(files[:3]) == []
