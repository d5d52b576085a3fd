"""Log directories with damage: segments, indexes, snapshots and checkpoints of one broker.

An input holds the files of a directory, and damage that is done to them: a file is cut, a range is
filled with zeros, swapped with another one or repeated. A start of the broker then finds them.

After a crash every batch is checked. Then nothing is served that was not appended, and offsets
ascend. What lies before the first damage is served, and a log that is corrupt is not shortened.
The base offset and the leader epoch of a batch lie outside of its CRC: they can be forged.

After a clean stop, and below the recovery point, files are trusted as in Kafka. There only the
errors are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.disk_work import LogDirectoryError
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.records.control import EndMarker
from local_cluster.records.header import HEADER_BYTES, read_header
from local_cluster.wire.errors import KafkaError
from tests.hostile.memory_files import MemoryFiles
from tests.hostile.target import Target
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, append, batch, flush

ROOT: Final = "/d"
PARTITION: Final = ("t", 0)
CONFIG: Final = LogConfig(segment_bytes=600, index_interval_bytes=100)
BATCHES: Final = (1, 3, 2, 5, 1, 4, 2, 3)
"""Records of the batches of an idempotent producer; a transaction is aborted among them."""
MARK: Final = b"\n--- "
DAMAGE: Final = "damage"
_NAME: Final = re.compile(r"(?:t-0/)?[A-Za-z0-9.-]{1,60}")
_DAMAGE: Final = re.compile(rb"(cut|zero|swap|repeat) ([0-9]{1,20}) ([0-9]{1,20}) ([0-9]{1,20})")
TRANSACTIONAL: Final = 0x10
ZEROS_MAX: Final = 4096


class CorruptLogError(Exception):
    """The log, or the directory, is not served in full; the broker says why."""


def _open(files: MemoryFiles) -> LogDirectory:
    directory = LogDirectory(Path(ROOT), files, broker_id=1, clock=StandingClock())
    directory.open(cluster_id="c", config=CONFIG)
    return directory


@lru_cache
def _directories() -> Mapping[str, Mapping[str, bytes]]:
    """Return the files after a crash, after one with a checkpoint, and after a clean stop."""
    files = MemoryFiles({})
    directory = _open(files)
    log = directory.get_or_create(PARTITION[0], TOPIC_ID, PARTITION[1], CONFIG)
    found = {}
    for index, count in enumerate(BATCHES):
        sequence = sum(BATCHES[:index])
        sent = batch(count, timestamp_ms=NOW_MS + index, producer=(9, 0, sequence))
        append(log, sent, epoch=index // 2)
        if index == 3:
            begun = batch(2, producer=(8, 0, 0), attributes=TRANSACTIONAL)
            append(log, begun, epoch=1)
            marker = EndMarker(is_commit=False, coordinator_epoch=1)
            log.as_leader.append_marker(
                marker, producer_id=8, producer_epoch=0, leader_epoch=1, now_ms=NOW_MS
            )
            flush(log)
    found["crash"] = {name: bytes(content) for name, content in files.contents.items()}
    directory.checkpoint({PARTITION: 6})
    found["checkpoint"] = {name: bytes(content) for name, content in files.contents.items()}
    directory.close(high_watermarks={PARTITION: log.log_end_offset})
    found["clean"] = {name: bytes(content) for name, content in files.contents.items()}
    return found


@lru_cache
def _appended() -> tuple[bytes, ...]:
    """Return the batches that were appended, in order, without what no CRC covers."""
    files = _directories()["crash"]
    return tuple(
        _without_unchecked(content)
        for name in sorted(files)
        if name.endswith(".log")
        for _, content in _split(files[name])
    )


def _split(content: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(content):
        assert position + HEADER_BYTES <= len(content), "half a header is served"
        size_bytes = read_header(content, position).size_bytes
        assert size_bytes >= HEADER_BYTES and position + size_bytes <= len(content)
        yield position, content[position : position + size_bytes]
        position += size_bytes


def _without_unchecked(content: bytes) -> bytes:
    """Return a batch without its base offset and leader epoch."""
    return content[8:12] + content[16:]


@lru_cache
def _corpus() -> tuple[bytes, ...]:
    archives = []
    for files in _directories().values():
        last = max(name for name in files if name.endswith(".log"))
        index = sorted(files).index(last)
        end = len(files[last])
        for damage in (f"zero {index} {end} 64", f"swap {index} 0 0", f"cut {index} {end} 0"):
            parts = {name.removeprefix(ROOT + "/"): files[name] for name in sorted(files)}
            parts[DAMAGE] = damage.encode()
            archives.append(
                b"".join(MARK + name.encode() + b"\n" + each for name, each in parts.items())
            )
    return tuple(archives)


def _unpacked(archive: bytes) -> tuple[dict[str, bytes], bytes]:
    """Return the files by path, and the damage that is to be done."""
    files, damage = {}, b""
    for part in archive.split(MARK)[1:]:
        head, _, content = part.partition(b"\n")
        name = head.decode("ascii", "replace")
        if name == DAMAGE:
            damage = content
        elif _NAME.fullmatch(name):
            files[f"{ROOT}/{name}"] = content
    return files, damage


def _damaged(files: dict[str, bytes], damage: bytes) -> dict[str, bytes]:
    names = sorted(files)
    for kind, *numbers in _DAMAGE.findall(damage) if names else ():
        number, start, size = map(int, numbers)
        name = names[number % len(names)]
        content = bytearray(files[name])
        at = start % (len(content) + 1)
        if kind == b"cut":
            del content[at:]
        elif kind == b"zero":
            count = size % ZEROS_MAX
            content[at : at + count] = bytes(count)
        else:
            count = min(size, len(content) - at)
            other = (size // 2) % (len(content) - count + 1)
            moved = content[at : at + count]
            if kind == b"swap":
                content[at : at + count] = content[other : other + count]
            content[other : other + count] = moved
        files[name] = bytes(content)
    return files


def _served(log: PartitionLog) -> tuple[list[bytes], KafkaError | None]:
    """Return what a consumer gets from the start on, and the error that stops it."""
    found: list[bytes] = []
    offset = log.log_start_offset
    try:
        while offset < log.log_end_offset:
            piece = log.reader.read(
                offset, bytes_max=1 << 20, offset_limit=1 << 62, at_least_one_batch=True
            )
            assert piece.next_offset > offset, "a read must advance"
            found.append(piece.read())
            offset = piece.next_offset
    except KafkaError as error:
        return found, error
    return found, None


def read_directory(archive: bytes) -> object:
    """Start a broker on the files. Raises CorruptLogError, LogDirectoryError."""
    files, damage = _unpacked(archive)
    files = _damaged(files, damage)
    memory = MemoryFiles(files)
    directory = _open(memory)
    log = directory.get(*PARTITION)
    if log is None:
        raise CorruptLogError(directory.offline.get(PARTITION, "there is no such log"))
    is_trusted = directory.was_clean or directory.offsets.recovery_point(PARTITION) > 0
    served, error = _served(log)
    if not is_trusted:
        assert error is None, error
        _check(files, [each for piece in served for _, each in _split(piece)], log)
        if log.corruption is not None:
            before = {name: each for name, each in files.items() if name.endswith(".log")}
            after = {name: bytes(memory.contents.get(name, b"")) for name in before}
            assert before == after, "a corrupt log was changed"
    if log.corruption is not None or error is not None:
        raise CorruptLogError(log.corruption or error)
    result = append(log, batch(1), epoch=99)
    assert result.base_offset == result.last_offset == log.log_end_offset - 1
    directory.close()
    again = _open(memory).get(*PARTITION)
    assert again is not None and again.log_end_offset == log.log_end_offset, "the next start"
    return log.log_end_offset


def _check(files: Mapping[str, bytes], served: list[bytes], log: PartitionLog) -> None:
    """Compare what is served with what was appended, and with what is whole before the damage."""
    appended = frozenset(_appended())
    for each in served:
        assert _without_unchecked(each) in appended, "a batch that was not appended"
    offsets = [read_header(each, 0).base_offset for each in served]
    assert offsets == sorted(set(offsets)), offsets
    whole = list(_whole(files))
    if log.log_start_offset == 0 and not _is_started_elsewhere(files):
        assert [_without_unchecked(each) for each in served[: len(whole)]] == whole


def _whole(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield the appended batches up to the first byte of a `.log` that is not as it was."""
    pristine = _directories()["crash"]
    for name in sorted(name for name in pristine if name.endswith(".log")):
        found = files.get(name, b"")
        for position, content in _split(pristine[name]):
            if found[position : position + len(content)] != content:
                return
            yield _without_unchecked(content)
        if len(found) != len(pristine[name]):
            return


def _is_started_elsewhere(files: Mapping[str, bytes]) -> bool:
    """Return whether a file tells the log to begin elsewhere, or is a foreign segment."""
    known = _directories()["crash"]
    return any(name.endswith((".log", ".swap", ".cleaned")) and name not in known for name in files)


LOG_TARGETS: Final = (
    Target("log-recovery", _corpus, read_directory, (CorruptLogError, LogDirectoryError), 5),
)
