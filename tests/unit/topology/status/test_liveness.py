"""Liveness checks, and the reasons for daemons and clusters that do not respond."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mirror_maker.settings import LinkSettings, MirrorSettings, dump_settings
from tests.unit.topology.status.test_document import DEPLOYMENT, report, row
from tests.unit.topology.status.test_reports import serving
from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment, LinkView
from topology.mirror.config_sync import SyncFailed, sync_links
from topology.mirror.gaps import GapsUnreadable, read_gaps
from topology.status import liveness
from topology.status.liveness import (
    ClusterSilent,
    check_liveness,
    describe_cluster,
    require_clusters,
)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "LIVENESS_TIMEOUT_S", 0.2)
    monkeypatch.setattr(liveness, "RESPONSE_TIMEOUT_S", 0.2)


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """The port of a stopped process: connections are accepted, and nobody responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def saying(answer: bytes) -> Iterator[int]:
    """A port that responds to the first bytes of a connection with `answer`."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1024)
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def one_broker(port: int) -> Deployment:
    broker = BrokerView(id=1, host="127.0.0.1", port=port, daemon="b")
    cluster = ClusterView(
        name="ewr",
        kind="local",
        datacenter="ewr",
        bootstrap=f"127.0.0.1:{port}",
        brokers=(broker,),
    )
    return Deployment(
        name="d",
        topology_file="/d.yaml",
        daemons=(Daemon(key="b", role="broker", label="b", argv=()),),
        clusters=(cluster,),
    )


def why(deployment: Deployment, *rows: dict[str, Any]) -> dict[str, str]:
    return dict(check_liveness(deployment, report(*rows)).silent_daemons)


def test_a_stopped_broker_is_named_with_its_address() -> None:
    with silent() as port:
        said = why(one_broker(port), row("b", "broker"))
    assert said == {"b": f"127.0.0.1:{port} does not answer within 200 ms"}


def test_a_broker_that_is_not_ready_is_not_asked() -> None:
    with silent() as port:
        assert why(one_broker(port), row("b", "broker", "starting")) == {}
    assert check_liveness(one_broker(port), None).silent_daemons == {}


def test_mirror_workers_and_aggregators_are_asked_over_http() -> None:
    with serving({}) as well, silent() as stopped, saying(b"no HTTP\r\n") as other:
        rows = [
            row("m", "mirror", ready={"http_port": well}),
            row("g", "aggregator", ready={"http_port": stopped}),
            row("o", "aggregator", ready={"http_port": other}),
        ]
        said = why(DEPLOYMENT, *rows)
    assert said == {
        "g": f"http://127.0.0.1:{stopped}/healthz does not answer within 0.2 s",
        "o": f"http://127.0.0.1:{other}/healthz does not answer with HTTP",
    }


def test_zookeeper_is_asked_whether_it_serves() -> None:
    def deployed(port: int) -> Deployment:
        daemon = Daemon(
            key="z", role="zookeeper", label="z", argv=(), ready_zookeeper=("127.0.0.1", port)
        )
        return Deployment(name="d", topology_file="/d.yaml", daemons=(daemon,))

    with saying(b"Zookeeper version: 3.9.1") as port:
        assert why(deployed(port), row("z", "zookeeper")) == {}
    with saying(b"This ZooKeeper instance is not currently serving requests\n") as port:
        said = why(deployed(port), row("z", "zookeeper"))
    assert said == {"z": f"127.0.0.1:{port} does not say within 1 s that it serves"}


def test_an_existing_cluster_that_is_silent_is_named() -> None:
    with silent() as port:
        bootstrap = f"127.0.0.1:{port}"
        theirs = ClusterView(name="lga", kind="external", datacenter="lga", bootstrap=bootstrap)
        heard = check_liveness(
            Deployment(name="d", topology_file="/d.yaml", clusters=(theirs,)), None
        )
    assert heard.external_brokers == {}
    (said,) = heard.silent_clusters.values()
    assert said.startswith("cluster lga") and f"127.0.0.1:{port}" in said
    assert "does not answer within" in said


async def test_one_silent_address_does_not_take_the_time_of_the_next() -> None:
    with silent() as stopped, saying(b"") as closing:
        bootstrap = f"127.0.0.1:{stopped},127.0.0.1:{closing}"
        cluster = ClusterView(name="lga", kind="external", datacenter="lga", bootstrap=bootstrap)
        with pytest.raises(ClusterSilent) as caught:
            await describe_cluster(cluster, 1.0)
    assert str(caught.value) == "cluster lga does not answer: connection closed by the peer"


async def test_every_silent_cluster_is_named_once() -> None:
    with silent() as first, silent() as second:
        clusters = [
            ClusterView(name=name, kind="local", datacenter="", bootstrap=f"127.0.0.1:{port}")
            for name, port in (("ewr", first), ("jfk", second), ("ewr", first))
        ]
        with pytest.raises(ClusterSilent) as caught:
            await require_clusters(clusters)
    ewr, jfk = str(caught.value).split("; ")
    assert ewr.startswith("cluster ewr ") and f"127.0.0.1:{first}" in ewr
    assert jfk.startswith("cluster jfk ") and f"127.0.0.1:{second}" in jfk


def test_gaps_and_sync_name_the_cluster_that_does_not_answer() -> None:
    """A link that syncs nothing needs no cluster, so it names none."""
    with silent() as port:
        bootstrap = f"127.0.0.1:{port}"
        link = LinkSettings(name="a-b", source_alias="a", source_bootstrap=bootstrap)
        settings = MirrorSettings(
            worker_id="w",
            target_alias="b",
            target_bootstrap=bootstrap,
            links=(link,),
            ready_file="",
        )
        deployment = Deployment(
            name="d",
            topology_file="/d.yaml",
            daemons=(
                Daemon(
                    key="m",
                    role="mirror",
                    label="m",
                    argv=(),
                    files={"settings.json": dump_settings(settings).decode()},
                    ready_file="/nowhere",
                ),
            ),
            clusters=tuple(
                ClusterView(name=name, kind="local", datacenter=name, bootstrap=bootstrap)
                for name in ("a", "b")
            ),
            links=(LinkView(name="a-b", source="a", target="b", daemon="m"),),
        )
        with pytest.raises(GapsUnreadable, match=r"cluster b .*does not answer within"):
            read_gaps(deployment)
        with pytest.raises(SyncFailed, match=r"cluster a .*; cluster b .*does not answer within"):
            sync_links(deployment, None, dry_run=True)
