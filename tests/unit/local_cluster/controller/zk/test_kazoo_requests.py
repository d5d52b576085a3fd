"""Bytes of ZooKeeper's multiRead."""

from __future__ import annotations

import struct

import pytest
from kazoo.exceptions import NoAuthError

from local_cluster.controller.zk.coordination import Znode
from local_cluster.controller.zk.kazoo_requests import MultiRead

END = struct.pack("!iBi", -1, 1, -1)
STAT = struct.pack("!qqqqiiiqiiq", 7, 9, 0, 0, 3, 0, 0, 55, 2, 0, 7)


def found(payload: bytes | None) -> bytes:
    length = -1 if payload is None else len(payload)
    return struct.pack("!iBii", 4, 0, 0, length) + (payload or b"") + STAT


def failed(error: int) -> bytes:
    return struct.pack("!iBii", -1, 0, error, error)


def test_a_request_names_every_path_without_a_watch() -> None:
    header = struct.pack("!iBi", 4, 0, -1)
    wanted = header + b"\0\0\0\2/a\0" + header + b"\0\0\0\5/b/\xc3\xa9\0" + END
    assert MultiRead(["/a", "/b/\u00e9"]).serialize() == wanted


def test_an_answer_has_a_znode_or_none_per_path() -> None:
    answer = b"header" + found(b"ab") + failed(-101) + found(None) + found(b"") + END
    ab = Znode(b"ab", version=3, created_zxid=7, modified_zxid=9, ephemeral_owner=55)
    empty = ab._replace(payload=b"")
    assert MultiRead.deserialize(answer, len(b"header")) == [ab, None, empty, empty]


def test_another_error_than_an_absent_znode_fails_the_read() -> None:
    with pytest.raises(NoAuthError):
        MultiRead.deserialize(found(b"ab") + failed(-102) + END, 0)
