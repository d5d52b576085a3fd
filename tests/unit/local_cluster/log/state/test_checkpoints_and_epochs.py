"""The leader-epoch cache and the small text files."""

from __future__ import annotations

from uuid import UUID

import pytest

from local_cluster.log.state import checkpoints as c
from local_cluster.log.state.epochs import EpochEntry, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def pairs(cache: LeaderEpochs) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in cache.entries]


def test_epochs_only_grow_and_replace_what_contradicts_them() -> None:
    cache = epochs((1, 0), (3, 10))
    assert not cache.assign(3, 12)
    assert not cache.assign(2, 12)
    assert not cache.assign(-1, 12)
    assert cache.assign(5, 10)
    assert pairs(cache) == [(1, 0), (5, 10)]
    assert cache.assign(6, 4)
    assert pairs(cache) == [(1, 0), (6, 4)]


def test_unknown_epochs_have_no_end() -> None:
    assert epochs().end_of(0, 5) == (-1, -1)
    assert epochs((2, 0)).end_of(-1, 5) == (-1, -1)
    assert epochs((2, 3)).end_of(1, 5) == (1, 3)


def test_truncation_at_both_ends() -> None:
    cache = epochs((1, 0), (3, 10), (4, 20))
    assert cache.truncate_end(20)
    assert pairs(cache) == [(1, 0), (3, 10)]
    assert not cache.truncate_end(11)
    assert cache.truncate_start(5)
    assert pairs(cache) == [(1, 5), (3, 10)]
    assert not cache.truncate_start(5)
    assert not cache.truncate_start(2)
    assert cache.truncate_start(30)
    assert pairs(cache) == [(3, 30)]
    assert cache.epoch_of(29) == -1


def test_formats_are_exactly_kafkas() -> None:
    assert c.encode_offsets({("b", 1): 7, ("a-b", 10): 0}) == b"0\n2\na-b 10 0\nb 1 7\n"
    assert c.encode_offsets({}) == b"0\n0\n"
    assert c.encode_epochs([EpochEntry(0, 0), EpochEntry(3, 99)]) == b"0\n2\n0 0\n3 99\n"
    assert c.encode_partition_metadata(UUID(int=1)) == (
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )
    assert c.decode_meta_properties(
        b"#\n#Sat Nov 21 2026\nversion=0\nbroker.id=3\ncluster.id=x=y\n"
    ) == (3, "x=y")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\nt 0 1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt zero 1\n",
        b"0\n1\nt 0 -1\n",
        b"0\n1\nt -1 0\n",
        b"0\n1\nt 0 1_0\n",
        b"0\n1\nt 0 9223372036854775808\n",
        b"0\n1\n0 -1\n",
        b"0\n1\n-1 0\n",
        b"0\n" + b"9" * 5_000 + b"\n",
        b"\xff\n0\n",
        b"\0\0\0\0",
    ],
)
def test_broken_checkpoints_are_refused(content: bytes) -> None:
    with pytest.raises(c.CheckpointCorruptError):
        c.decode_offsets(content)
    with pytest.raises(c.CheckpointCorruptError):
        c.decode_epochs(content)


@pytest.mark.parametrize("content", [b"", b"version: 0\n", b"version: 0\ntopic_id: ??", b"\xff"])
def test_broken_metadata_is_refused(content: bytes) -> None:
    with pytest.raises(c.CheckpointCorruptError):
        c.decode_partition_metadata(content)
    with pytest.raises(c.CheckpointCorruptError):
        c.decode_meta_properties(content)
