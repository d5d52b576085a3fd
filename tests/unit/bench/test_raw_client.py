"""The raw client: frames that lie across reads, answers in turn, never more in flight than told."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.bench.raw_client import RawConnection, connected, pipelined


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back each frame it gets, some bytes at a time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with connection:
        while received := connection.recv(7_777):
            connection.sendall(received)


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def test_answers_of_any_size_come_whole(echo: int) -> None:
    contents = [bytes([size % 251]) * size for size in (1, 0, 4_091, 4_092, 4_093, 3_000_000, 9)]
    connection = RawConnection("127.0.0.1", echo)
    for content in contents:
        # The echo sends while it reads, so a frame above the socket buffers needs both at once.
        sender = threading.Thread(target=connection.send, args=(frame(content),))
        sender.start()
        assert bytes(connection.receive()) == content
        sender.join()
    connection.close()


def test_frames_go_round_and_answers_come_in_that_order(echo: int) -> None:
    answers: list[bytes] = []
    asked = 0
    most_in_flight = 0

    def frames() -> Iterator[bytes]:
        nonlocal asked, most_in_flight
        for number in range(100):
            asked += 1
            most_in_flight = max(most_in_flight, asked - len(answers))
            yield frame(b"%d" % number)

    with connected("127.0.0.1", echo, 3) as connections:
        count = pipelined(connections, frames(), 8, lambda answer: answers.append(bytes(answer)))
    assert count == 100
    assert answers == [b"%d" % number for number in range(100)]
    assert most_in_flight == 8


def test_a_broker_that_hangs_up_is_an_error(echo: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = RawConnection("127.0.0.1", server.getsockname()[1])
        accepted, _ = server.accept()
        accepted.close()
        with pytest.raises(ConnectionError):
            connection.receive()
        connection.close()
