"""A ZooKeeper server of a test's own, to be killed, paused and started again."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.support.quiet_ports import quiet_port
from topology.deployment.zookeeper import EmbeddedZooKeeper


class ZooKeeperProcess:
    """The embedded server on a port that it keeps; started at once, answers a little later."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.server = EmbeddedZooKeeper(
            directory=directory, data_directory=directory / "data", port=quiet_port()
        )
        for path, text in self.server.files.items():
            path.write_text(text)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.server.argv, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """kill -9 and wait; once more does nothing."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing is answered until `resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
