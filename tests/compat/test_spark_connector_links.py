"""Links that are added while a stream of Spark's Kafka connector runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from spark_global.links import encode_links
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.kafka_from_maven import connector_jars

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.long, pytest.mark.timeout(600)]

WAIT_SECONDS_MAX = 240.0


class Job:
    """The process, and the rows of its batches."""

    def __init__(self, nyc: Aggregated, jars: Path, out: Path) -> None:
        """A second job of the same `out` goes on where the first one stopped."""
        self._out, self._log = out, out.with_suffix(".log")
        links = encode_links(nyc.aggregate("jfk").links)
        with self._log.open("wb") as said:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.support.connector_joining_job"),
                    *(nyc.bootstrap, links, str(jars), "gates", str(out)),
                ],
                cwd=Path(__file__).parents[2],
                stdout=said,
                stderr=said,
            )

    def rows(self) -> list[tuple[str, str]]:
        """Datacenter and offset at the source of every row."""
        files = [path for path in self._out.glob("[0-9]*") if path.suffix != ".partial"]
        return sorted((row[0], row[3]) for path in files for row in json.loads(path.read_text()))

    def wait_for(self, expected: list[tuple[str, str]]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while self.rows() != expected:
            assert self.process.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.2)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        return self._log.read_text()[-6000:]


def rows_of(datacenter: str, count: int) -> list[tuple[str, str]]:
    return [(datacenter, str(SHIFT + n)) for n in range(count)]


@contextmanager
def joining_job(zookeeper: str, directory: Path) -> Iterator[tuple[Aggregated, Job]]:
    """A job that has read three copies of JFK, and the aggregate that it reads."""
    jars = connector_jars()
    with running_aggregated(zookeeper, directory / "broker") as nyc:
        nyc.run(nyc.create("jfk.gates"))
        nyc.run(nyc.publish_map("jfk", "gates", 3))
        nyc.run(nyc.copy("jfk.gates", range(3)))
        with closing(Job(nyc, jars, directory / "out")) as job:
            job.wait_for(rows_of("JFK", 3))
            yield nyc, job


def test_a_link_joins_and_a_topic_that_is_no_copy_fails_the_batch(
    zookeeper: str, tmp_path: Path
) -> None:
    with joining_job(zookeeper, tmp_path) as (nyc, job):
        # A link that no option names, and a topic whose name has its own beginning.
        nyc.run(nyc.publish_map("lga", "gates", 2))
        nyc.run(nyc.create("lga.gates"))
        nyc.run(nyc.copy("lga.gates", range(2)))
        nyc.run(nyc.create("lga.other-gates"))
        nyc.run(nyc.copy("lga.other-gates", range(2)))
        job.wait_for([*rows_of("JFK", 3), *rows_of("lga", 2)])
        nyc.run(nyc.create("foreign.gates"))
        nyc.run(nyc.copy("foreign.gates", range(1)))
        assert job.process.wait(WAIT_SECONDS_MAX) == 0, job.said()
        refusal = (tmp_path / "out" / "refusal").read_text()
        assert "foreign.gates-0 and 0 more: the log or the offset map ends" in refusal
        assert job.rows() == [*rows_of("JFK", 3), *rows_of("lga", 2)]


def test_a_link_with_other_names_joins_or_fails_the_batch(zookeeper: str, tmp_path: Path) -> None:
    """Copies with the topic's own name join; other names are not known to the connector."""
    with joining_job(zookeeper, tmp_path) as (nyc, job):
        nyc.run(nyc.publish_map("lga", "gates", 2, target="gates"))
        nyc.run(nyc.create("gates"))
        nyc.run(nyc.copy("gates", range(2)))
        both = [*rows_of("JFK", 3), *rows_of("lga-nyc", 2)]
        job.wait_for(both)
        nyc.run(nyc.publish_map("ewr", "gates", 1, target="newark-gates"))
        nyc.run(nyc.create("newark-gates"))
        nyc.run(nyc.copy("newark-gates", range(1)))
        # The next batch fails, whatever it reads.
        nyc.run(nyc.publish_map("jfk", "gates", 4))
        nyc.run(nyc.copy("jfk.gates", range(3, 4)))
        assert job.process.wait(WAIT_SECONDS_MAX) == 0, job.said()
        refusal = (tmp_path / "out" / "refusal").read_text()
        assert "a link copies into newark-gates by now" in refusal
        assert job.rows() == both
        # The next run reads all of it.
        with closing(Job(nyc, connector_jars(), tmp_path / "out")) as again:
            again.wait_for([("JFK", str(SHIFT + n)) for n in range(4)] + both[3:])
