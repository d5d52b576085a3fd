"""Do the faults of a plan to real processes: kill -9, SIGSTOP and SIGCONT."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.referee.deployment import CommandFailed, Deployment
from tests.referee.kafka import KafkaNode
from tests.referee.plan import Fault, Freeze, Kill, Victim

RESTART_SECONDS: Final = 0.7
"""Until the referee starts again what it started itself."""


class Workers:
    """Mirror workers beside those of the deployment, started by `heliograph mirror run`."""

    def __init__(self, deployment: Deployment, directory: Path, targets: tuple[str, ...]) -> None:
        self._deployment = deployment
        self._directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for target in targets:
            self.start(target)

    def start(self, target: str) -> None:
        """Start the worker for a target."""
        command = self._deployment.worker_command(target, f"referee-{target}")
        with (self._directory / f"worker-{target}.log").open("ab") as log:
            self.processes[target] = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        """Stop all of them cleanly, and kill what does not stop."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Injector:
    """Finds the processes of victims, does faults to them, and starts again what the deployment's
    supervisor does not know."""

    def __init__(
        self,
        deployment: Deployment,
        kafka: Mapping[str, KafkaNode],
        workers: Workers,
        say: Callable[[str], None],
    ) -> None:
        self._deployment = deployment
        self._kafka = kafka
        self._workers = workers
        self._say = say
        self._frozen: set[int] = set()
        self._timers: list[threading.Timer] = []
        self._starting = threading.Lock()
        self.done: Counter[str] = Counter()
        """Faults by kind, such as `kill broker`."""

    def do(self, fault: Fault) -> None:
        """Do a fault; one whose process is away already is left out."""
        match fault:
            case Kill():
                self.aim(fault)()
            case Freeze(victim, seconds):
                pid = self._pid(victim)
                if pid is not None:
                    self._signal(pid, signal.SIGSTOP)
                    self._frozen.add(pid)
                    self.done[f"freeze {victim.role}"] += 1
                    self._later(seconds, lambda: self._thaw(pid))

    def aim(self, fault: Kill) -> Callable[[], None]:
        """Look up the processes, which takes a second; what is returned kills them at once."""
        found = [(each, pid) for each in fault.victims if (pid := self._pid(each)) is not None]

        def kill() -> None:
            for victim, pid in found:
                self._signal(pid, signal.SIGKILL)
                self.done[f"kill {victim.role}"] += 1
            self._later(RESTART_SECONDS, self.start_again)

        return kill

    def start_again(self) -> None:
        """Start Kafka nodes and workers that have ended."""
        with self._starting:
            for node in self._kafka.values():
                if node.process is not None and node.process.poll() is not None:
                    node.start()
            for target, process in list(self._workers.processes.items()):
                if process.poll() is not None:
                    self._workers.start(target)

    def heal(self) -> None:
        """End all faults: wake what is frozen, start what was killed."""
        for timer in self._timers:
            timer.cancel()
        for pid in list(self._frozen):
            self._thaw(pid)
        time.sleep(RESTART_SECONDS)
        self.start_again()

    def _thaw(self, pid: int) -> None:
        self._frozen.discard(pid)
        self._signal(pid, signal.SIGCONT)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _signal(self, pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, number)

    def _pid(self, victim: Victim) -> int | None:
        match victim.role:
            case "kafka":
                process = self._kafka[victim.name].process
                return process.pid if process is not None and process.poll() is None else None
            case "worker":
                worker = self._workers.processes[victim.name]
                return worker.pid if worker.poll() is None else None
            case "zookeeper":
                key = "zookeeper-main"
            case "broker":
                key = f"broker-{victim.name}-{victim.number + 1}"
            case _:
                key = f"{victim.role}-{victim.name}"
        try:
            return self._deployment.pid(key)
        except CommandFailed as error:
            self._say(f"fault left out: {error}")
            return None
