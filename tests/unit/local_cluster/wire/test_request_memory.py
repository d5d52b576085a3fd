"""The memory for requests of all connections: who is let in, who waits, whose turn it is."""

from __future__ import annotations

import random
from functools import partial

from local_cluster.wire.request_memory import UNLIMITED, RequestMemory


class HandClock:
    def __init__(self) -> None:
        self.ns = 1

    def __call__(self) -> int:
        return self.ns


def memory_of(bytes_max: int) -> RequestMemory:
    return RequestMemory(bytes_max, HandClock())


def test_any_size_is_let_in_while_memory_is_left_and_none_after() -> None:
    memory = memory_of(100)
    assert memory.take(99)
    assert memory.take(1_000), "larger than what is left, and than the limit"
    assert (memory.available, memory.used) == (-999, 1_099)
    assert not memory.take(1)
    memory.give(1_000)
    assert memory.take(1)
    assert not memory.take(1)


def test_no_limit_lets_all_in() -> None:
    for bytes_max in (UNLIMITED, 0):
        memory = memory_of(bytes_max)
        assert all(memory.take(1 << 31) for _ in range(100))
        assert memory.used == 100 << 31


def test_addresses_take_turns_and_connections_of_one_keep_their_order() -> None:
    memory = memory_of(1)
    assert memory.take(1)
    turns: list[str] = []
    for connection in range(5):
        memory.wait("crowd", connection, 1, partial(turns.append, f"crowd {connection}"))
    for connection in (10, 11):
        memory.wait("other", connection, 1, partial(turns.append, f"other {connection}"))
    assert memory.waiting == 7
    for _ in range(7):
        memory.give(1)
    assert turns == [
        *("crowd 0", "other 10", "crowd 1", "other 11"),
        *("crowd 2", "crowd 3", "crowd 4"),
    ]
    assert memory.waiting == 0
    assert memory.available == 0


def test_a_large_request_that_waits_is_let_in_by_the_first_byte_that_is_left() -> None:
    memory = memory_of(10)
    assert memory.take(10)
    turns: list[int] = []
    memory.wait("a", 1, 1_000, partial(turns.append, 1))
    memory.give(1)
    assert turns == [1]
    assert memory.available == -999


def test_who_leaves_is_not_let_in() -> None:
    memory = memory_of(1)
    assert memory.take(1)
    turns: list[int] = []
    memory.wait("a", 1, 1, partial(turns.append, 1))
    memory.wait("a", 2, 1, partial(turns.append, 2))
    memory.wait("b", 3, 1, partial(turns.append, 3))
    memory.leave("a", 1)
    memory.leave("b", 3)
    memory.leave("b", 3)
    memory.leave("unknown", 4)
    memory.give(1)
    assert turns == [2]
    assert memory.waiting == 0


def test_who_comes_when_memory_is_left_does_not_wait() -> None:
    memory = memory_of(1)
    turns: list[int] = []
    memory.wait("a", 1, 5, partial(turns.append, 1))
    assert turns == [1]
    assert memory.used == 5


def test_the_time_without_memory_is_counted_and_reported_once() -> None:
    clock = HandClock()
    memory = RequestMemory(1, clock)
    begins: list[int] = []
    memory.on_wait(lambda: begins.append(clock.ns))
    assert memory.take(1)
    clock.ns = 100
    assert memory.depleted_ns == 0, "nobody waits"
    memory.wait("a", 1, 1, lambda: None)
    clock.ns = 150
    memory.wait("a", 2, 1, lambda: None)
    assert memory.depleted_ns == 50
    clock.ns = 170
    memory.leave("a", 1)
    memory.give(1)
    clock.ns = 900
    assert memory.depleted_ns == 70
    memory.wait("a", 3, 1, lambda: None)
    assert begins == [100, 900]


def test_what_is_taken_is_given_back_whatever_happens() -> None:
    for seed in range(200):
        chosen = random.Random(seed)
        memory = memory_of(1_000)
        held: dict[int, int] = {}
        waiting: dict[int, int] = {}

        def granted(
            number: int, held: dict[int, int] = held, waiting: dict[int, int] = waiting
        ) -> None:
            held[number] = waiting.pop(number)

        for number in range(200):
            size = chosen.randrange(1, 700)
            if memory.take(size):
                assert not waiting, "somebody was overtaken"
                held[number] = size
            else:
                waiting[number] = size
                memory.wait(f"address {number % 3}", number, size, partial(granted, number))
            if chosen.random() < 0.3 and waiting:
                gone = chosen.choice(list(waiting))
                memory.leave(f"address {gone % 3}", gone)
                del waiting[gone]
            while held and chosen.random() < 0.5:
                memory.give(held.pop(chosen.choice(list(held))))
            assert memory.used == sum(held.values())
            assert memory.waiting == len(waiting)
            assert not waiting or memory.available <= 0
