"""The supervisor with tiny daemons as real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from topology.deployment.deployment import Daemon, Deployment, encode_deployment, read_deployment
from topology.deployment.state_dir import SOCKET_PATH_CHARS_MAX, StateDir
from topology.operate import handover
from topology.operate.down import down
from topology.operate.preflight import plan_steps
from topology.operate.up import Up
from topology.operate.up import up as bring_up
from topology.problems import DeployError
from topology.status.observe import current_status
from topology.supervisor.control_client import SupervisorUnreachable, supervisor_status
from topology.supervisor.own_process import Identity, start_mark
from topology.supervisor.process_journal import StartedProcess, read_processes, write_processes

FAKE = Path(__file__).with_name("fake_daemon.py")
WAIT_S = 60.0

pytestmark = pytest.mark.real


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    directory = StateDir(tmp_path / "state")
    yield directory
    down(directory)


def fake(state: StateDir, name: str, *, after: tuple[str, ...] = (), **settings: Any) -> Daemon:
    ready_file = str(state.ready_dir / f"{name}.json")
    settings_file = str(state.settings_dir / f"{name}.json")
    text = json.dumps({"name": name, "ready_file": ready_file, **settings})
    return Daemon(
        key=name,
        role="broker",
        label=f"fake {name}",
        argv=(sys.executable, str(FAKE), settings_file),
        files={settings_file: text},
        ready_file=ready_file,
        after=after,
        stop_grace_s=1.0,
    )


def deployment(*daemons: Daemon, name: str = "fakes") -> Deployment:
    return Deployment(name=name, topology_file="fakes.yaml", daemons=daemons)


def up(wanted: Deployment, state: StateDir) -> Up:
    return bring_up(wanted, state, timeout_s=WAIT_S)


def pids(state: StateDir) -> dict[str, int]:
    return {row["key"]: row["pid"] for row in supervisor_status(state.socket_path)["daemons"]}


def supervisor_pid(state: StateDir) -> int | None:
    try:
        return int(supervisor_status(state.socket_path)["pid"])
    except SupervisorUnreachable:
        return None


def supervisor_and_keeper(state: StateDir) -> tuple[psutil.Process, psutil.Process]:
    # Without a pid psutil would take this very process.
    wait_for(lambda: supervisor_pid(state) is not None)
    supervisor = psutil.Process(int(supervisor_status(state.socket_path)["pid"]))
    keeper = supervisor.parent()
    assert keeper is not None
    assert "topology.keeper" in keeper.cmdline()
    return supervisor, keeper


def kill_supervisor_and_keeper(state: StateDir) -> None:
    """Kill both at once, so that no process starts another supervisor."""
    supervisor, keeper = supervisor_and_keeper(state)
    for process in (keeper, supervisor):
        process.kill()
    wait_for(lambda: not alive(keeper.pid) and not alive(supervisor.pid))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come about"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def ready_ns(state: StateDir, name: str) -> int:
    return int(json.loads((state.ready_dir / f"{name}.json").read_text())["started_ns"])


def test_up_starts_in_order_and_down_stops_in_reverse(state: StateDir) -> None:
    daemons = (
        fake(state, "mirror", after=("broker",)),
        fake(state, "broker", after=("zookeeper",), ready_after_s=0.2),
        fake(state, "zookeeper", ready_after_s=0.2),
    )
    result = up(deployment(*daemons), state)
    assert result.status["state"] == "running"
    assert [step.action for step in result.steps] == ["start"] * 3
    order = sorted(("zookeeper", "broker", "mirror"), key=lambda name: ready_ns(state, name))
    assert order == ["zookeeper", "broker", "mirror"]
    running = pids(state)

    down(state)
    assert not any(alive(pid) for pid in running.values())
    stops = (state.ready_dir / "stops.txt").read_text().split()
    assert stops == ["mirror", "broker", "zookeeper"]
    assert not state.is_locked()


def test_a_killed_daemon_is_restarted_and_the_others_are_left_alone(state: StateDir) -> None:
    up(deployment(fake(state, "a"), fake(state, "b")), state)
    before = pids(state)
    os.kill(before["a"], signal.SIGKILL)
    wait_for(lambda: pids(state)["a"] not in (None, before["a"]))
    wait_for(lambda: current_status(state)["state"] == "running")
    assert pids(state)["b"] == before["b"]
    rows = {each["key"]: each for each in current_status(state)["daemons"]}
    assert (rows["a"]["restarts"], rows["b"]["restarts"]) == (1, 0)


def test_a_daemon_that_keeps_ending_fails_up_with_the_end_of_its_log(state: StateDir) -> None:
    bad = fake(state, "bad", exit_code=7, print="no space for flights")
    with pytest.raises(DeployError, match=r"fake bad keeps ending \(exit code 7\)") as caught:
        up(deployment(fake(state, "good"), bad), state)
    assert any("no space for flights" in line for line in caught.value.details)

    def states() -> dict[str, str]:
        return {each["key"]: each["state"] for each in current_status(state)["daemons"]}

    # Between two restarts it starts for a moment.
    wait_for(lambda: states()["bad"] == "restarting")
    assert states()["good"] == "running"


def test_a_second_up_does_nothing_where_everything_runs(state: StateDir) -> None:
    wanted = deployment(fake(state, "a"), fake(state, "b"))
    up(wanted, state)
    before = pids(state)
    assert up(wanted, state).steps == ()
    assert pids(state) == before


def test_a_second_up_repairs_only_what_is_missing(state: StateDir) -> None:
    """Without supervisor and one daemon, `up` finds the running daemons and does not touch them."""
    wanted = deployment(fake(state, "a"), fake(state, "b"))
    up(wanted, state)
    before = pids(state)
    supervisor = supervisor_pid(state)
    kill_supervisor_and_keeper(state)
    os.kill(before["a"], signal.SIGKILL)
    wait_for(lambda: not alive(before["a"]))
    assert alive(before["b"])

    result = up(wanted, state)
    assert [(step.action, step.key) for step in result.steps] == [("start", "a")]
    after = pids(state)
    assert after["b"] == before["b"]
    assert after["a"] != before["a"]
    assert supervisor_pid(state) != supervisor

    os.kill(after["b"], signal.SIGKILL)  # found, not a child: its death is noticed as well
    wait_for(lambda: pids(state)["b"] not in (None, after["b"]))


def test_a_killed_supervisor_is_followed_by_another_that_starts_nothing_twice(
    state: StateDir,
) -> None:
    up(deployment(fake(state, "a"), fake(state, "b", after=("a",))), state)
    before, first = pids(state), supervisor_pid(state)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: supervisor_pid(state) not in (None, first))
    wait_for(lambda: current_status(state)["state"] == "running")
    assert pids(state) == before

    os.kill(before["a"], signal.SIGKILL)
    wait_for(lambda: pids(state)["a"] not in (None, before["a"]))
    assert pids(state)["b"] == before["b"]
    assert down(state) == ["fake a", "fake b"]
    assert not any(alive(pid) for pid in before.values())


def test_a_supervisor_of_another_version_is_replaced(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = deployment(fake(state, "a"))
    up(wanted, state)
    before, first = pids(state), supervisor_pid(state)
    assert up(wanted, state).steps == ()
    assert supervisor_pid(state) == first
    monkeypatch.setattr(handover, "version", lambda _: "another")
    assert up(wanted, state).steps == ()
    assert supervisor_pid(state) not in (None, first)
    assert pids(state) == before


def test_a_supervisor_goes_on_without_its_keeper(state: StateDir) -> None:
    wanted = deployment(fake(state, "a"))
    up(wanted, state)
    before = pids(state)
    supervisor, keeper = supervisor_and_keeper(state)
    keeper.kill()
    wait_for(lambda: not alive(keeper.pid))
    assert up(wanted, state).steps == ()
    assert (pids(state), supervisor_pid(state)) == (before, supervisor.pid)
    os.kill(before["a"], signal.SIGKILL)
    wait_for(lambda: pids(state)["a"] not in (None, before["a"]))


def test_sigterm_to_the_keeper_stops_everything(state: StateDir) -> None:
    up(deployment(fake(state, "a")), state)
    before = pids(state)
    _, keeper = supervisor_and_keeper(state)
    keeper.terminate()
    wait_for(lambda: not state.is_locked())
    assert not any(alive(pid) for pid in before.values())


def test_what_could_not_be_written_down_never_runs(state: StateDir) -> None:
    """A supervisor is killed between the start of a process and its record."""
    state.create()
    daemon = fake(state, "a")
    for path, text in daemon.files.items():
        Path(path).write_text(text)
    log_file = state.log_file("a")
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from topology.supervisor.own_process import start\n"
        "log_file, directory, *argv = sys.argv[1:]\n"
        "print(start(argv, log_file=Path(log_file), directory=Path(directory)).pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(log_file), str(state.path), *daemon.argv],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[3],
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: not alive(int(done.stdout)))
    assert "started" not in log_file.read_text()


def test_a_supervisor_that_cannot_read_what_to_keep_says_so(state: StateDir) -> None:
    up(deployment(fake(state, "a")), state)
    down(state)
    state.processes_file.write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "topology.keeper", "--state-dir", str(state.path)],
        cwd=Path(__file__).resolve().parents[3],
        stderr=subprocess.PIPE,
        timeout=WAIT_S,
        check=False,
    )
    state.processes_file.unlink()
    assert (done.returncode, b"cannot read what to supervise" in done.stderr) == (2, True)


def test_an_edited_deployment_applies_only_the_difference(state: StateDir) -> None:
    same, edited, gone = fake(state, "same"), fake(state, "edited"), fake(state, "gone")
    up(deployment(same, edited, gone), state)
    before = pids(state)
    wanted = deployment(same, fake(state, "edited", print="anew"), fake(state, "new"))
    steps = plan_steps(wanted, state)
    assert [(step.action, step.key) for step in steps] == [
        ("stop", "gone"),
        ("restart", "edited"),
        ("start", "new"),
    ]
    assert steps[1].reasons == ("print: not set -> anew",)

    up(wanted, state)
    after = pids(state)
    assert after["same"] == before["same"]
    assert after["edited"] not in (None, before["edited"])
    assert set(after) == {"same", "edited", "new"}
    assert not alive(before["gone"])
    assert plan_steps(wanted, state) == []
    assert read_deployment(state) == wanted


def test_down_stops_only_what_this_deployment_started(state: StateDir, tmp_path: Path) -> None:
    other = StateDir(tmp_path / "other")
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        up(deployment(fake(state, "a")), state)
        up(deployment(fake(other, "a"), name="others"), other)
        theirs = pids(other)["a"]
        mine = pids(state)["a"]
        # As if a pid of ours had been given to somebody else meanwhile.
        records = read_processes(state.processes_file)
        assert start_mark(stranger.pid) != start_mark(mine)
        identity = Identity(stranger.pid, start_mark(mine))
        records["b"] = StartedProcess(identity, fake(state, "b"))
        write_processes(state.processes_file, records)

        assert down(state) == ["fake a"]
        assert not alive(mine)
        assert alive(theirs)
        assert stranger.poll() is None
    finally:
        down(other)
        stranger.kill()
        stranger.wait()


def test_down_stops_what_outlived_its_supervisor(state: StateDir) -> None:
    up(deployment(fake(state, "a"), fake(state, "b", after=("a",))), state)
    before = pids(state)
    kill_supervisor_and_keeper(state)
    status = current_status(state)
    assert (status["state"], status["supervisor"]) == ("unsupervised", None)
    assert {each["key"]: each["pid"] for each in status["daemons"]} == before

    assert down(state) == ["fake a", "fake b"]
    assert not any(alive(pid) for pid in before.values())
    assert (state.ready_dir / "stops.txt").read_text().split() == ["b", "a"]


def test_a_daemon_that_ignores_sigterm_is_killed(state: StateDir) -> None:
    up(deployment(fake(state, "deaf", ignore_sigterm=True)), state)
    pid = pids(state)["deaf"]
    down(state)
    assert not alive(pid)


def test_purge_deletes_what_the_deployment_wrote_and_nothing_else(state: StateDir) -> None:
    up(deployment(fake(state, "a")), state)
    state.data_dir.mkdir()
    (state.data_dir / "log").write_text("x")
    (state.path / "notes.txt").write_text("mine")
    down(state)
    assert (state.data_dir / "log").exists()
    down(state, purge=True)
    assert [path.name for path in state.path.iterdir()] == ["notes.txt"]


def test_the_deployment_survives_the_terminal(state: StateDir) -> None:
    """`up` runs as the leader of a session on a terminal, and the terminal is closed."""
    wanted = deployment(fake(state, "a"))
    text = state.path.parent / "deployment.json"
    text.write_text(encode_deployment(wanted))
    program = (
        "import signal, sys, time; from pathlib import Path\n"
        # A parent that ignores hang-ups (nohup) would pass that on.
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from topology.operate.up import up\n"
        "from topology.deployment.deployment import decode_deployment\n"
        "from topology.deployment.state_dir import StateDir\n"
        "up(decode_deployment(Path(sys.argv[1]).read_text()), StateDir(Path(sys.argv[2])))\n"
        "print('up', flush=True); time.sleep(60)\n"
    )
    controller, terminal = os.openpty()
    shell = subprocess.Popen(
        [sys.executable, "-c", program, str(text), str(state.path)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    os.close(terminal)
    output = b""
    while b"up" not in output:
        output += os.read(controller, 1024)
    before = pids(state)["a"]
    supervisor, keeper = supervisor_and_keeper(state)
    os.killpg(shell.pid, signal.SIGHUP)  # what the system sends when a terminal goes away
    os.close(controller)
    shell.wait(WAIT_S)

    assert os.getsid(before) == before
    assert os.getsid(supervisor.pid) == os.getsid(keeper.pid) == keeper.pid
    assert pids(state) == {"a": before}
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: pids(state)["a"] not in (None, before))


def test_a_port_in_use_stops_up_before_anything_starts(state: StateDir) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        plain = fake(state, "a")
        daemon = Daemon(
            key="a",
            role="broker",
            label="fake a",
            argv=plain.argv,
            files=plain.files,
            ready_file=plain.ready_file,
            ports=(("127.0.0.1", port),),
        )
        with pytest.raises(DeployError, match="nothing was started") as caught:
            up(deployment(daemon), state)
    assert caught.value.details == (f"fake a: 127.0.0.1:{port} is in use by another process",)
    assert not state.exists()


def test_a_state_directory_belongs_to_one_deployment(state: StateDir) -> None:
    up(deployment(fake(state, "a")), state)
    before = pids(state)
    with pytest.raises(DeployError, match="belongs to deployment 'fakes', not 'others'"):
        up(deployment(fake(state, "a"), name="others"), state)
    assert pids(state) == before


def test_a_long_state_path_gets_a_short_socket(tmp_path: Path) -> None:
    deep = StateDir(tmp_path / ("d" * 60) / ("e" * 60))
    assert len(str(deep.path)) > SOCKET_PATH_CHARS_MAX
    assert len(str(deep.socket_path)) <= SOCKET_PATH_CHARS_MAX
    try:
        up(deployment(fake(deep, "a")), deep)
        assert current_status(deep)["state"] == "running"
    finally:
        down(deep, purge=True)
    assert not deep.socket_path.exists()
    assert not deep.path.exists()


def test_two_supervisors_never_keep_one_state_directory(state: StateDir) -> None:
    up(deployment(fake(state, "a")), state)
    before = supervisor_status(state.socket_path)["pid"]
    second = subprocess.run(
        [sys.executable, "-m", "topology.keeper", "--state-dir", str(state.path)],
        cwd=Path(__file__).resolve().parents[3],
        timeout=WAIT_S,
        check=False,
    )
    assert second.returncode == 0
    assert supervisor_status(state.socket_path)["pid"] == before
