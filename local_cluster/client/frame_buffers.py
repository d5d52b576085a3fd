"""The buffers that all connections of an event loop receive into."""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

from local_cluster.wire.frame import FrameBuffers

_OF_LOOPS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FrameBuffers]] = WeakKeyDictionary()


def buffers_of_this_loop() -> FrameBuffers:
    """A loop runs in one thread, and receives for one connection at a time."""
    loop = asyncio.get_running_loop()
    buffers = _OF_LOOPS.get(loop)
    if buffers is None:
        buffers = _OF_LOOPS[loop] = FrameBuffers()
    return buffers
