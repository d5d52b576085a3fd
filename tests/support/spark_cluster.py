"""A standalone cluster of Spark on this machine: one master, two workers, from PySpark's jars."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyspark

from tests.support.quiet_ports import quiet_ports

SPARK_HOME: Final = Path(pyspark.__file__).parent
START_SECONDS_MAX: Final = 120.0
SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
WORKERS: Final = 2
SETTINGS: Final[Mapping[str, str]] = {
    "spark.cores.max": str(WORKERS),
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SMALL_JAVA,
    "spark.driver.extraJavaOptions": SMALL_JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    # No task runs before both workers have an executor.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_SECONDS_MAX:.0f}s",
    # Rows are few: what prepares many of them would cost more than the rest.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
}


class SparkCluster:
    """The processes. Executors have every package of this environment, but none of ours."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.python = _python_without_us(directory / "python")
        self._processes: list[subprocess.Popen[bytes]] = []
        port, page = quiet_ports(2)
        self.master = f"spark://127.0.0.1:{port}"
        deploy = "org.apache.spark.deploy"
        address = ("--host", "127.0.0.1")
        try:
            master = (f"{deploy}.master.Master", *address, "--port", str(port))
            self._spawn("master", (*master, "--webui-port", str(page)))
            self._wait_listening(port)
            for number, page in enumerate(quiet_ports(WORKERS)):
                worker = (f"{deploy}.worker.Worker", *address, "--webui-port", str(page))
                size = ("--cores", "1", "--memory", "1g")
                work = ("--work-dir", str(self.work(number)))
                self._spawn(f"worker{number}", (*worker, *size, *work, self.master))
        except BaseException:
            self.stop()
            raise

    def work(self, number: int) -> Path:
        """The directory in which a worker's executors run."""
        return self.directory / f"work{number}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of processes that must not see our sources."""
        kept = {
            name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ
        }
        return kept | {
            "PYSPARK_PYTHON": str(self.python),
            "SPARK_DAEMON_JAVA_OPTS": SMALL_JAVA,
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def submit(self, archive: Path, job: Path, *arguments: str) -> str:
        """Run a job by `spark-submit`; return what it printed."""
        settings = [
            part for name, value in SETTINGS.items() for part in ("--conf", f"{name}={value}")
        ]
        done = subprocess.run(
            [
                str(SPARK_HOME / "bin" / "spark-submit"),
                *("--master", self.master, "--py-files", str(archive)),
                *settings,
                *(str(job), *arguments),
            ],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = [line for line in done.stderr.splitlines() if " INFO " not in line]
        assert done.returncode == 0, "\n".join(said)[:6000]
        return done.stdout

    def executors(self) -> list[int]:
        """The processes of the executors that run."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes()
                place = (entry / "cwd").readlink()
            except OSError:
                continue
            if b"CoarseGrainedExecutorBackend" in command and place.is_relative_to(self.directory):
                found.append(int(entry.name))
        return found

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(SPARK_HOME / "bin" / "spark-class"), *command],
                    cwd=self.directory,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                )
            )

    def _wait_listening(self, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            assert self._processes[0].poll() is None, (self.directory / "master.log").read_text()
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError("the master does not listen")


def _python_without_us(directory: Path) -> Path:
    """Create an environment with the packages of this one. It does not follow their .pth files,
    of which one leads to our sources."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory / "bin" / "python"
