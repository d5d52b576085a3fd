"""What the hosts are: network namespaces on a bridge, or loopback addresses of this machine.

A namespace has an address and a name of its own, and can be cut off. A loopback address has
neither: to cut such a host off, all of its processes are frozen.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from tests.support.quiet_ports import quiet_ports, quiet_range
from tests.ten_hosts.layout import Ports
from tests.ten_hosts.processes import resume, suspend

INSIDE: Final = "TEN_HOSTS_NAMESPACE"
"""Set in the environment of the process that runs in a network namespace of its own."""
NEW_NAMESPACE: Final = ("unshare", "--net", "--uts")
BRIDGE: Final = "hosts"
SUBNET: Final = "10.77.0"
HOLDER: Final = 'hostname "$0" && echo ready && exec sleep infinity'
WHAT_IT_TAKES: Final = """\
ip link set lo up && ip link add probe type bridge && ip link add one type veth peer name two"""


class Network(Protocol):
    """The hosts of a machine, by their numbers."""

    kind: str
    ports: Ports

    @property
    def addresses(self) -> Mapping[int, str]:
        """The address of each host."""
        ...

    def prefix(self, number: int) -> Sequence[str]:
        """What stands before a command that a host runs."""
        ...

    def cut(self, number: int) -> None:
        """Cut a host off from all others."""
        ...

    def heal(self, number: int) -> None:
        """Connect it again."""
        ...

    def close(self) -> None:
        """End what stands for the hosts."""
        ...


def enter_namespace() -> None:
    """Start this program again in a network namespace of its own, if that is permitted.

    Returns where it is not permitted, or where it runs in one.
    """
    if os.environ.get(INSIDE):
        return
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    command = [NEW_NAMESPACE[0], *user, *NEW_NAMESPACE[1:]]
    try:
        tried = subprocess.run(
            [*command, "sh", "-c", WHAT_IT_TAKES], capture_output=True, check=False
        )
    except FileNotFoundError:
        return
    if tried.returncode == 0:
        os.environ[INSIDE] = "1"
        os.execvp(command[0], [*command, *sys.orig_argv])


def make_network(numbers: Iterable[int]) -> Network:
    """Make the hosts: namespaces inside of one, else loopback addresses."""
    return Namespaces(numbers) if os.environ.get(INSIDE) else Loopback(numbers)


class Namespaces:
    """A network namespace for each host, and a bridge between them in that of this process."""

    kind = "network namespaces"
    ports = Ports()

    def __init__(self, numbers: Iterable[int]) -> None:
        self.addresses = {number: f"{SUBNET}.{number}" for number in numbers}
        self._holders: dict[int, subprocess.Popen[bytes]] = {}
        _run("hostname", "operator")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{SUBNET}.254/24", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        for number, address in self.addresses.items():
            self._add(number, address)

    def prefix(self, number: int) -> Sequence[str]:
        pid = self._holders[number].pid
        return ("nsenter", f"--net=/proc/{pid}/ns/net", f"--uts=/proc/{pid}/ns/uts", "--")

    def cut(self, number: int) -> None:
        _run("ip", "link", "set", f"to-{number}", "down")

    def heal(self, number: int) -> None:
        _run("ip", "link", "set", f"to-{number}", "up")

    def close(self) -> None:
        for holder in self._holders.values():
            holder.kill()
            holder.wait()

    def _add(self, number: int, address: str) -> None:
        holder = subprocess.Popen(
            [*NEW_NAMESPACE, "sh", "-c", HOLDER, f"host-{number}"], stdout=subprocess.PIPE
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        self._holders[number] = holder
        ends = ("ip", "link", "add", f"to-{number}", "type", "veth", "peer", "name", "eth0")
        _run(*ends, "netns", str(holder.pid))
        _run("ip", "link", "set", f"to-{number}", "master", BRIDGE, "up")
        _run(*self.prefix(number), "ip", "link", "set", "lo", "up")
        _run(*self.prefix(number), "ip", "address", "add", f"{address}/24", "dev", "eth0")
        _run(*self.prefix(number), "ip", "link", "set", "eth0", "up")


class Loopback:
    """Loopback addresses 127.0.1.x. To cut a host off, its processes are frozen."""

    kind = "loopback addresses"

    def __init__(self, numbers: Iterable[int]) -> None:
        self.addresses = {number: f"127.0.1.{number}" for number in numbers}
        self.ports = Ports(quiet_range(3)[0], *quiet_ports(5))

    def prefix(self, number: int) -> Sequence[str]:
        return ()

    def cut(self, number: int) -> None:
        suspend(number)

    def heal(self, number: int) -> None:
        resume(number)

    def close(self) -> None:
        pass


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
