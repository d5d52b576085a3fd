"""Fixtures that several packages' tests share."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import hypothesis  # before kio, which gives it strategies only if it is loaded
import pytest

from local_cluster.compilation.finder import install
from spark_global.without_pandas import NoPandas
from tests.support.quiet_ports import quiet_port
from topology.deployment.zookeeper import EmbeddedZooKeeper, ZooKeeperUnavailable

ZOOKEEPER_START_SECONDS_MAX = 120.0

# No test asserts how long something takes, and a failure prints how to have it again.
hypothesis.settings.register_profile("heliograph", deadline=None, print_blob=True)
hypothesis.settings.load_profile("heliograph")


RAN_OUT_OF_TIME = ("TimeoutError", r"Timeout \(>", "failed to connect back")
"""What a test says that waited too long beside the others, for a process or for Spark's."""
BUILD_VARIABLE = "HELIOGRAPH_EXPECTED_BUILD"
"""`compiled` or `plain`: what a run of the suite means to test."""


def pytest_report_header() -> str:
    return f"heliograph: {install().text}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also the tests marked long")
    parser.addoption(
        "--once-more",
        action="store_true",
        help="try a real test once more that ran out of its time; a wrong result never",
    )


def pytest_configure() -> None:
    build = install()
    expected = os.environ.get(BUILD_VARIABLE)
    if expected and (expected == "compiled") != (build.directory is not None):
        raise pytest.UsageError(f"{expected} modules are expected, this is {build.text}")
    # A suite that was started in the background of a script ignores SIGINT, and so would every
    # process that its tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    gc.disable()  # a third of the time of imports and collection, which free next to nothing


def pytest_collection_finish() -> None:
    gc.freeze()  # else each full collection looks at thousands of test items again
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--once-more"):
        # Not the plugin's option for all tests: under xdist it costs each of them some 40 ms.
        again = pytest.mark.flaky(reruns=1, only_rerun=list(RAN_OUT_OF_TIME))
        for item in items:
            if item.get_closest_marker("real"):
                item.add_marker(again)
    if config.getoption("--long"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture(autouse=True)
def pandas_is_importable() -> Iterator[None]:
    """A command that ran in this process may have done without pandas; later tests do not."""
    yield
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, NoPandas)]


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real ZooKeeper server for the whole session: "host:port"; use a chroot per test."""
    server = EmbeddedZooKeeper(
        directory=tmp_path_factory.mktemp("zookeeper"),
        data_directory=tmp_path_factory.mktemp("zookeeper-data"),
        port=quiet_port(),
        fsync=False,
    )
    try:
        command = server.argv
    except ZooKeeperUnavailable as error:
        pytest.skip(str(error))
    for path, text in server.files.items():
        path.write_text(text)
    with (server.directory / "zookeeper.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _await_serving(server, process)
        yield server.connect
    finally:
        process.kill()
        process.wait()


def _await_serving(server: EmbeddedZooKeeper, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + ZOOKEEPER_START_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with socket.create_connection((server.host, server.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                if connection.recv(4096).startswith(b"Zookeeper version"):
                    return
        except OSError:
            pass
        time.sleep(0.05)
    log = (server.directory / "zookeeper.log").read_text(errors="replace")
    raise RuntimeError(f"ZooKeeper does not serve:\n{log[-4000:]}")
