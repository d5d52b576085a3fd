"""Processes of a simulated machine: their callbacks and tasks stop and die with them.

Everything that the loop runs has a context; `HOME` in it names the process, None the world's own. A
stopped process (SIGSTOP) runs nothing: due callbacks are held, in order, until it continues.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable
from typing import Any, TypeVarTuple, Unpack

from tests.sim.virtual_time import VirtualTimeLoop

WORKER_SECONDS = 0.001
"""Duration of work in a thread."""
Arguments = TypeVarTuple("Arguments")


class SimProcess:
    """A process, as the loop sees it."""

    def __init__(self) -> None:
        self.is_alive = False
        self.is_stopped = False
        """After SIGSTOP, before SIGCONT."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._held: list[asyncio.Handle] = []

    def hold(self, handle: asyncio.Handle) -> None:
        """Run this when the process continues."""
        self._held.append(handle)

    def stop_running(self) -> None:
        """SIGSTOP."""
        self.is_stopped = True

    def continue_running(self) -> None:
        """SIGCONT; the kernel also does this to a process that is killed."""
        self.is_stopped = False
        held, self._held = self._held, []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        loop.run_held(held)

    def end_tasks(self) -> None:
        """The process died: cancel all of its tasks."""
        self.is_alive = False
        tasks, self.tasks = self.tasks, {}
        for task in tasks:
            task.cancel()
        if self.is_stopped:
            self.continue_running()


HOME: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar("HOME", default=None)
"""The process that the running code belongs to."""
OUTSIDE = contextvars.Context()
"""A context of no process; copy it."""


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
    """A loop in virtual time that runs nothing of stopped processes."""

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
        """Run the work in the loop, after a moment: there are no threads."""
        future = self.create_future()

        def do() -> None:
            if future.done():
                return
            try:
                future.set_result(work(*args))
            except Exception as error:  # noqa: BLE001 - passed on to the caller
                future.set_exception(error)

        self.call_later(WORKER_SECONDS, do)
        return future

    def run_held(self, handles: list[asyncio.Handle]) -> None:
        """Run callbacks that were held."""
        self._ready.extend(handles)  # type: ignore[attr-defined]


def _task_of_home(loop: Any, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Create a task, and register it with its process, so that it can die with it."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    home = context.get(HOME) if context is not None else HOME.get()
    if home is not None:
        home.tasks[task] = None
        task.add_done_callback(lambda done: home.tasks.pop(done, None))
        if not home.is_alive:
            task.cancel()
    return task
