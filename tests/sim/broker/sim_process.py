"""Processes of a simulated machine: what they run belongs to them, stops with them, and dies.

Everything that the loop runs has a context; `HOME` in it names the process, None the world's own.
A process that is stopped (SIGSTOP) runs nothing: what is due is held, in order, until it goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable
from typing import Any, TypeVarTuple, Unpack

from tests.sim.virtual_time import VirtualTimeLoop

WORKER_SECONDS = 0.001
"""What work in a thread takes."""
Arguments = TypeVarTuple("Arguments")


class SimProcess:
    """What a loop must know of a process."""

    def __init__(self) -> None:
        self.is_alive = False
        self.is_stopped = False
        """SIGSTOP came, SIGCONT did not."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._held: list[asyncio.Handle] = []

    def hold(self, handle: asyncio.Handle) -> None:
        """Run this when the process goes on."""
        self._held.append(handle)

    def stop_running(self) -> None:
        """SIGSTOP."""
        self.is_stopped = True

    def go_on(self) -> None:
        """SIGCONT; also what the kernel does for a process that is killed."""
        self.is_stopped = False
        held, self._held = self._held, []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        loop.run_held(held)

    def end_tasks(self) -> None:
        """The process is gone, and all that it did."""
        self.is_alive = False
        tasks, self.tasks = self.tasks, {}
        for task in tasks:
            task.cancel()
        if self.is_stopped:
            self.go_on()


HOME: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar("HOME", default=None)
"""The process that the running code belongs to."""
OUTSIDE = contextvars.Context()
"""Belongs to no process; to be copied."""


class _Handle(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        if not _is_held(self):
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ()

    def _run(self) -> None:
        if not _is_held(self):
            super()._run()


def _is_held(handle: Any) -> bool:
    home = handle._context.get(HOME)
    if home is None or not home.is_stopped:
        return False
    home.hold(handle)
    return True


class ProcessLoop(VirtualTimeLoop):
    """A loop in virtual time that runs nothing of processes that are stopped."""

    may_use_threads = False

    def __init__(self) -> None:
        super().__init__()
        self.set_task_factory(_task_of_home)

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, handle)  # type: ignore[attr-defined]
        handle._scheduled = True  # type: ignore[attr-defined]
        return handle

    def run_in_executor(
        self, executor: Any, work: Callable[[Unpack[Arguments]], Any], *args: *Arguments
    ) -> asyncio.Future[Any]:
        """No threads here: it is done after a moment, at once."""
        future = self.create_future()

        def do() -> None:
            if future.done():
                return
            try:
                future.set_result(work(*args))
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                future.set_exception(error)

        self.call_later(WORKER_SECONDS, do)
        return future

    def run_held(self, handles: list[asyncio.Handle]) -> None:
        """These were due before."""
        self._ready.extend(handles)  # type: ignore[attr-defined]


def _task_of_home(loop: Any, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task, and note it with the process that it belongs to, so that it can die with it."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    home = context.get(HOME) if context is not None else HOME.get()
    if home is not None:
        home.tasks[task] = None
        task.add_done_callback(lambda done: home.tasks.pop(done, None))
        if not home.is_alive:
            task.cancel()
    return task
