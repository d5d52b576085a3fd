"""Kafka's DumpLogSegments reads our files; skipped without Kafka's jars."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
from pathlib import Path

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.log.config.log_config import LogConfig
from local_cluster.records.control import EndMarker
from local_cluster.records.header import DELETE_HORIZON_BIT, TRANSACTIONAL_BIT, iter_headers
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import running_kafka, tool_jars
from tests.support.producing import produce_once
from tests.unit.local_cluster.log.compaction.compaction_samples import compact, put
from tests.unit.local_cluster.log.samples import NOW_MS, append, batch, create, offsets_of, read_all

pytestmark = pytest.mark.oracle

COMPLAINTS = re.compile(r"mismatch|corrupt|not found|isvalid: false|exception", re.IGNORECASE)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three segments with each codec, two producers, three epochs."""
    root = tmp_path_factory.mktemp("ours")
    log = create(root, config=LogConfig(segment_bytes=9000, index_interval_bytes=400))
    sequence = 0
    for index in range(120):
        made = batch(
            1 + index % 4,
            timestamp_ms=NOW_MS + index * 10 - index % 7 * 30,
            value=b"x" * (index * 11 % 200),
            codec=index % 5,
            producer=(9, 0, sequence) if index % 2 else (-1, -1, -1),
        )
        sequence += (1 + index % 4) * (index % 2)
        append(log, made, epoch=index // 50)
    log.close()
    return root / "t-0"


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A log with each codec after two compaction rounds, and the offsets that are left."""
    root = tmp_path_factory.mktemp("compacted")
    config = LogConfig(
        is_compacted=True,
        segment_bytes=9000,
        index_interval_bytes=400,
        min_cleanable_dirty_ratio=0.0,
    )
    log = create(root, config=config)
    for index in range(400):
        put(
            log,
            (b"k%d" % (index % 30), b"x" * (index * 11 % 200)),
            (b"once%d" % index, b"y") if index % 20 == 0 else (b"t%d" % (index % 9), None),
            codec=index % 5,
            now_ms=NOW_MS + index * 10 - index % 7 * 30,
            producer=(9, 0, 2 * index) if index < 200 else (-1, -1, -1),
            epoch=index // 100,
        )
    cleaned = compact(log)
    assert cleaned is not None
    assert compact(log, now_ms=NOW_MS + 1000) is not None
    headers = [header for _, header in iter_headers(read_all(log))]
    assert any(header.records_count == 0 for header in headers)
    assert any(header.attributes & DELETE_HORIZON_BIT for header in headers)
    log.close()
    return root / "t-0", offsets_of(log)


@pytest.fixture(scope="module")
def with_transactions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transactions of three producers over several segments, one of them aborted in each."""
    root = tmp_path_factory.mktemp("transactions")
    log = create(root, config=LogConfig(segment_bytes=4000, index_interval_bytes=300))
    sequence = 0
    # Kafka forgets producers whose last record is older than a day.
    now_ms = int(time.time() * 1000)
    for turn in range(40):
        for producer_id in (9, 10, 11):
            append(
                log,
                batch(
                    2,
                    timestamp_ms=now_ms + turn,
                    producer=(producer_id, 0, sequence),
                    attributes=TRANSACTIONAL_BIT,
                    codec=turn % 5,
                ),
                epoch=turn // 15,
            )
        for producer_id in (9, 10, 11):
            log.as_leader.append_marker(
                EndMarker(is_commit=producer_id != 10, coordinator_epoch=0),
                producer_id=producer_id,
                producer_epoch=0,
                leader_epoch=turn // 15,
                now_ms=now_ms + turn,
            )
        sequence += 2
    log.close()
    return root / "t-0"


def dump(files: list[Path], *options: str) -> str:
    names = ",".join(map(str, files))
    command = ["java", "-cp", f"{tool_jars()}/*", "org.apache.kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*command, *options, "--files", names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not COMPLAINTS.search(done.stdout), done.stdout
    return done.stdout


def test_every_record_of_every_segment(written: Path) -> None:
    logs = sorted(written.glob("*.log"))
    assert len(logs) >= 2
    text = dump(logs, "--deep-iteration")
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert offsets == list(range(300))


def test_indexes_pass_the_sanity_check(written: Path) -> None:
    indexes = sorted(written.glob("*.index")) + sorted(written.glob("*.timeindex"))
    text = dump(indexes, "--index-sanity-check")
    empty = [path for path in indexes if not path.stat().st_size]
    assert text.count("is empty") == len(empty)
    assert text.count("passed sanity check") == len(indexes) - len(empty) >= 4
    # Without the option every entry is compared with the batch it points to.
    filled = [path for path in indexes if path not in empty]
    assert dump(filled).count("offset: ") > 20


def test_every_record_of_a_compacted_log(compacted: tuple[Path, list[int]]) -> None:
    directory, offsets = compacted
    logs = sorted(directory.glob("*.log"))
    text = dump(logs, "--deep-iteration")
    shown = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert shown == offsets
    assert len(offsets) < 400
    assert "isvalid: true" in text
    assert "deleteHorizonMs: OptionalLong[" in text


def test_indexes_of_a_compacted_log(compacted: tuple[Path, list[int]]) -> None:
    directory, _ = compacted
    indexes = sorted(directory.glob("*.index")) + sorted(directory.glob("*.timeindex"))
    filled = [path for path in indexes if path.stat().st_size]
    text = dump(indexes, "--index-sanity-check")
    assert text.count("passed sanity check") == len(filled) >= 4
    assert dump(filled).count("offset: ") > 20


def test_snapshots(written: Path) -> None:
    text = dump(sorted(written.glob("*.snapshot")))
    assert "producerId: 9 producerEpoch: 0" in text


def test_transactions_and_their_index(with_transactions: Path) -> None:
    logs = sorted(with_transactions.glob("*.log"))
    assert len(logs) >= 3
    text = dump(logs, "--deep-iteration")
    assert text.count("endTxnMarker: COMMIT") == 80
    assert text.count("endTxnMarker: ABORT") == 40
    indexes = sorted(with_transactions.glob("*.txnindex"))
    assert len(indexes) == len(logs)
    text = dump(indexes)
    found = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+)", text)
    assert [(int(each[0]), int(each[1]), int(each[2])) for each in found] == [
        (10, turn * 9 + 2, turn * 9 + 7) for turn in range(40)
    ]
    text = dump(sorted(with_transactions.glob("*.snapshot")))
    assert "producerId: 10 producerEpoch: 0" in text


def test_every_index_agrees_with_its_log(
    written: Path, compacted: tuple[Path, list[int]], with_transactions: Path
) -> None:
    for directory in (written, compacted[0], with_transactions):
        indexes = [*directory.glob("*.index"), *directory.glob("*.timeindex")]
        filled = sorted(path for path in indexes if path.stat().st_size)
        dump(filled, "--index-sanity-check")
        # The tool prints only disagreements.
        assert "offset: " not in dump(filled, "--verify-index-only")


def test_the_leader_epochs_are_in_kafkas_format(with_transactions: Path) -> None:
    assert (
        with_transactions / "leader-epoch-checkpoint"
    ).read_text() == "0\n3\n0 0\n1 135\n2 270\n"


@pytest.mark.real
async def test_the_topics_of_the_coordinators(zookeeper: str, tmp_path: Path) -> None:
    """Kafka's decoders of group and transaction records understand ours."""
    async with running_broker(zookeeper, tmp_path) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=1)])
        await asyncio.to_thread(use_coordinators, broker.bootstrap)
        assert await broker.stop() == 0
        offsets = sorted(broker.log_dir.glob("__consumer_offsets-*/*.log"))
        text = dump(offsets, "--deep-iteration", "--offsets-decoder")
        assert '"group":"the-group"' in text
        assert '"topic":"t","partition":0' in text
        assert re.search(r'"data":\{"offset":\d+', text)
        assert '"protocolType":"consumer"' in text
        transactions = sorted(broker.log_dir.glob("__transaction_state-*/*.log"))
        text = dump(transactions, "--deep-iteration", "--transaction-log-decoder")
        assert '"transactionalId":"the-transaction"' in text
        assert '"topic":"t"' in text
        for directory in {path.parent for path in (*offsets, *transactions)}:
            dump(sorted(directory.glob("*.snapshot")) or offsets[:1])


def use_coordinators(bootstrap: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "the-transaction"}
    )
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("t", b"v")
        assert producer.flush(30) == 0
        end(30)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "the-group",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["t"])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None
    consumer.commit(message=message, asynchronous=False)
    consumer.close()


@pytest.mark.real
@pytest.mark.parametrize("is_clean", [True, False])
async def test_kafka_takes_up_a_partition_of_ours(
    with_transactions: Path, tmp_path: Path, is_clean: bool
) -> None:
    """Kafka trusts our files after a clean stop, and checks each batch after a crash."""
    at = TopicPartition("t", 0)
    async with running_kafka(tmp_path / "kafka") as kafka:
        async with KafkaClient(kafka.bootstrap) as client:
            await client.create_topics([NewTopic(name="t", partitions=1, replication_factor=1)])
            while (await produce_once(client, 1, at, batch(1))).error is not ErrorCode.none:
                await asyncio.sleep(0.05)
        assert kafka.process is not None
        if is_clean:
            kafka.process.terminate()
            await asyncio.to_thread(kafka.process.wait)
        else:
            await kafka.kill()
        theirs = kafka.directory / "data" / "t-0"
        topic_id = (theirs / "partition.metadata").read_bytes()
        shutil.rmtree(theirs)
        shutil.copytree(with_transactions, theirs)
        (theirs / "partition.metadata").write_bytes(topic_id)
        await kafka.start()
        async with KafkaClient(kafka.bootstrap) as client:
            seen = [record.offset async for record in read_topic(client, "t", partition=0)]
            # Each turn: six records, of which the second producer's are aborted, and three markers.
            # Each turn: two records of each producer, then the three markers.
            assert seen == [turn * 9 + index for turn in range(40) for index in range(6)]
            gap = batch(1, producer=(9, 0, 81))
            refused = await produce_once(client, 1, at, gap)
            assert refused.error is ErrorCode.out_of_order_sequence_number
            following = await produce_once(client, 1, at, batch(1, producer=(9, 0, 80)))
            assert following.error is ErrorCode.none
            assert following.base_offset == 360
