"""A checkpoint is copied with other positions, wholly or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_cluster.client.model import TopicPartition
from spark_global.streaming.checkpoint import copy_checkpoint
from spark_global.streaming.positions import CheckpointError, StreamPositions

AT = TopicPartition("jfk.f", 0)


def position(offset: int) -> StreamPositions:
    return StreamPositions(cluster_id="x", topic_ids={"jfk.f": "i"}, offsets={AT: offset})


def plus_1000(held: StreamPositions) -> StreamPositions:
    if held.offsets[AT] < 10:
        raise CheckpointError("too old")
    return position(held.offsets[AT] + 1_000)


def write(root: Path, ends: list[int], commits: int) -> Path:
    for name in ("offsets", "commits"):
        (root / name).mkdir(parents=True)
    (root / "metadata").write_text('{"id":"q"}')
    for batch, end in enumerate(ends):
        text = json.dumps(position(end).encode())
        (root / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":{batch}}}\n{text}')
        (root / "offsets" / f".{batch}.crc").write_text("sum")
    for batch in range(commits):
        (root / "commits" / str(batch)).write_text("v1\n{}")
    return root


def read(root: Path) -> dict[str, int]:
    return {
        each.name: StreamPositions.decode(json.loads(each.read_text().splitlines()[-1])).offsets[AT]
        for each in (root / "offsets").iterdir()
    }


def test_both_ends_of_an_unfinished_batch_move(tmp_path: Path) -> None:
    old = write(tmp_path / "old", [5, 10, 20], commits=2)
    assert copy_checkpoint(old, tmp_path / "new", plus_1000) == [1, 2]
    assert read(tmp_path / "new") == {"1": 1_010, "2": 1_020}
    assert (tmp_path / "new" / "offsets" / "2").read_text().startswith('v1\n{"batchWatermarkMs":2}')
    assert (tmp_path / "new" / "commits" / "1").exists()
    assert (tmp_path / "new" / "metadata").read_text() == '{"id":"q"}'
    assert json.loads((old / "offsets" / "2").read_text().splitlines()[-1]) == position(20).encode()


def test_what_is_said_of_completeness_moves_as_it_is(tmp_path: Path) -> None:
    old = write(tmp_path / "old", [10], commits=1)
    file = old / "offsets" / "0"
    said = {"JFK": {"through": 5, "proved": None, "gaps": 0, "formerly": ["jfk"]}}
    document = position(10).encode() | {"complete": said}
    file.write_text("\n".join([*file.read_text().splitlines()[:2], json.dumps(document)]))
    copy_checkpoint(old, tmp_path / "new", plus_1000)
    moved = json.loads((tmp_path / "new" / "offsets" / "0").read_text().splitlines()[-1])
    assert moved == position(1_010).encode() | {"complete": said}


def test_the_start_of_a_batch_that_is_done_is_not_needed(tmp_path: Path) -> None:
    old = write(tmp_path / "old", [5, 10], commits=2)
    copy_checkpoint(old, tmp_path / "new", plus_1000)
    assert read(tmp_path / "new") == {"0": 1_010, "1": 1_010}


def test_a_refusal_leaves_nothing_behind(tmp_path: Path) -> None:
    old = write(tmp_path / "old", [5, 10], commits=1)
    with pytest.raises(CheckpointError, match="too old"):
        copy_checkpoint(old, tmp_path / "new", plus_1000)
    assert [each.name for each in tmp_path.iterdir()] == ["old"]
    for root, said in (
        (tmp_path, "it has no directory offsets"),
        (write(tmp_path / "empty", [], commits=0), "has no batch yet"),
    ):
        with pytest.raises(CheckpointError, match=said):
            copy_checkpoint(root, tmp_path / "new", plus_1000)
    for batch in ("0", "1"):
        (old / "offsets" / batch).write_text("v1\n{}\n{}\n{}")
    with pytest.raises(CheckpointError, match="the positions of one source, found 4 lines"):
        copy_checkpoint(old, tmp_path / "new", plus_1000)
    with pytest.raises(CheckpointError, match="exists already"):
        copy_checkpoint(old, tmp_path / "empty", plus_1000)
