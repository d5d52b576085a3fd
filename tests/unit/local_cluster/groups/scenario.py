"""Runs scenario scripts against a shard: commands in, a trace of all records and responses out.

A script is a list of blocks: commands, a line `----`, and the trace they must produce, ended by
an empty line. Commands:

    limits NAME=VALUE...                 settings of this and later shards
    join WHO [group=g] [member=ID] [instance=I] [type=consumer] [protocols=range:a,rr:b]
             [session=10000] [rebalance=60000] [v=9]
    sync WHO [generation=N] [assign=WHO:bytes,...] [member=ID] [instance=I] [protocol=P]
    heartbeat WHO [generation=N] [member=ID] [instance=I]
    leave WHO... | leave member=ID,instance=I
    commit WHO|- TOPIC-P=OFFSET[:metadata]... [generation=N] [member=ID] [retention=MS]
    fetch [TOPIC-P...]                   all offsets without arguments
    advance MILLISECONDS                 timers fire meanwhile, each at its deadline
    expire-offsets, delete-group, describe, list
    restart                              a new shard, replayed from all records so far

WHO is a client; it remembers the member id and generation of its last responses. The n-th new
member id is CLIENT-un. `HELIOGRAPH_REWRITE_SCENARIOS=1` rewrites the traces: review the diff.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from local_cluster.groups.requests import (
    CommitRequest,
    DescribedGroup,
    GroupLimits,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    OffsetToCommit,
    SyncRequest,
    SyncResponse,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode

WALL_START_MS = 1_700_000_000_000
GROUP = "g"


@dataclass
class Client:
    """One client of the scenario."""

    name: str
    member_id: str = ""
    generation: int = -1


@dataclass
class Scenario:
    """One shard, its records so far, and its clients."""

    limits: GroupLimits = field(default_factory=GroupLimits)
    now_ms: int = 0
    log: list[StoredRecord] = field(default_factory=list)
    clients: dict[str, Client] = field(default_factory=dict)
    requests: dict[int, str] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)
    uuids: int = 0
    tickets: int = 0

    def __post_init__(self) -> None:
        self.shard = GroupShard(self.limits)

    @property
    def now(self) -> Now:
        return Now(WALL_START_MS + self.now_ms, self.now_ms)

    def run(self, line: str) -> list[str]:
        """Run one command and return its trace."""
        verb, *words = shlex.split(line)
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        self.trace = []
        getattr(self, "do_" + verb.replace("-", "_"))(plain, options)
        for group in self.shard.state.classic_groups.values():
            group.check_invariants()
        return self.trace

    # -- commands ---------------------------------------------------------------------------

    def do_limits(self, plain: list[str], options: dict[str, str]) -> None:
        changed: dict[str, Any] = {name: int(value) for name, value in options.items()}
        self.limits = replace(self.limits, **changed)
        self.shard.state.limits = self.limits

    def do_join(self, plain: list[str], options: dict[str, str]) -> None:
        client = self._client(plain[0])
        version = int(options.get("v", 9))
        self.uuids += 1
        protocols = tuple(
            (entry.split(":")[0], entry.split(":")[1].encode())
            for entry in options.get("protocols", "range:sub").split(",")
        )
        request = JoinRequest(
            group_id=options.get("group", GROUP),
            member_id=options.get("member", client.member_id),
            group_instance_id=options.get("instance"),
            client_id=client.name,
            client_host="/h",
            session_timeout_ms=int(options.get("session", 10_000)),
            rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
            protocol_type=options.get("type", "consumer"),
            protocols=protocols,
            member_uuid=f"u{self.uuids}",
            requires_known_member_id=version >= 4,
            supports_skipping_assignment=version >= 9,
        )
        self._observe(self.shard.join(self._ticket(f"{client.name} join"), request, self.now))

    def do_sync(self, plain: list[str], options: dict[str, str]) -> None:
        client = self._client(plain[0])
        assignments = []
        for entry in filter(None, options.get("assign", "").split(",")):
            who, content = entry.split(":")
            assignments.append((self._client(who).member_id, content.encode()))
        request = SyncRequest(
            GROUP,
            options.get("member", client.member_id),
            options.get("instance"),
            int(options.get("generation", client.generation)),
            options.get("type"),
            options.get("protocol"),
            tuple(assignments),
        )
        self._observe(self.shard.sync(self._ticket(f"{client.name} sync"), request, self.now))

    def do_heartbeat(self, plain: list[str], options: dict[str, str]) -> None:
        client = self._client(plain[0])
        request = HeartbeatRequest(
            GROUP,
            options.get("member", client.member_id),
            options.get("instance"),
            int(options.get("generation", client.generation)),
        )
        ticket = self._ticket(f"{client.name} heartbeat")
        self._observe(self.shard.heartbeat(ticket, request, self.now))

    def do_leave(self, plain: list[str], options: dict[str, str]) -> None:
        members = [LeavingMember(self._client(who).member_id, None) for who in plain]
        if options:
            members.append(LeavingMember(options.get("member", ""), options.get("instance")))
        request = LeaveRequest(GROUP, tuple(members))
        self._observe(self.shard.leave(self._ticket("leave"), request, self.now))

    def do_commit(self, plain: list[str], options: dict[str, str]) -> None:
        client = Client("-") if plain[0] == "-" else self._client(plain[0])
        offsets = []
        for target, content in options.items():
            topic, dash, partition = target.rpartition("-")
            if dash:
                offset, _, metadata = content.partition(":")
                to_commit = OffsetToCommit(topic, int(partition), int(offset), 0, metadata or None)
                offsets.append(to_commit)
        request = CommitRequest(
            GROUP,
            options.get("member", client.member_id),
            options.get("instance"),
            int(options.get("generation", client.generation)),
            tuple(offsets),
            int(options.get("retention", -1)),
        )
        ticket = self._ticket(f"{client.name} commit")
        self._observe(self.shard.commit_offsets(ticket, request, self.now))

    def do_fetch(self, plain: list[str], options: dict[str, str]) -> None:
        partitions = None
        if plain:
            split = [target.rpartition("-") for target in plain]
            partitions = [(topic, int(partition)) for topic, _, partition in split]
        self._observe(self.shard.fetch_offsets(self._ticket("fetch"), GROUP, partitions))

    def do_advance(self, plain: list[str], options: dict[str, str]) -> None:
        target_ms = self.now_ms + int(plain[0])
        while (next_ms := self.shard.next_deadline_ms()) is not None and next_ms <= target_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.trace.append(f"[{self.now_ms} ms]")
            self._observe(self.shard.expire_timers(self.now))
            if self.trace[-1].startswith("["):
                self.trace.pop()
        self.now_ms = target_ms

    def do_expire_offsets(self, plain: list[str], options: dict[str, str]) -> None:
        self._observe(self.shard.expire_offsets(self.now))

    def do_delete_topic(self, plain: list[str], options: dict[str, str]) -> None:
        self._observe(self.shard.delete_topics(frozenset(plain)))

    def do_delete_group(self, plain: list[str], options: dict[str, str]) -> None:
        self._observe(self.shard.delete_group(self._ticket("delete-group"), GROUP, self.now))

    def do_describe(self, plain: list[str], options: dict[str, str]) -> None:
        self._observe(self.shard.describe(self._ticket("describe"), GROUP))

    def do_list(self, plain: list[str], options: dict[str, str]) -> None:
        for group in self.shard.list_groups():
            self.trace.append(f"{group.group_id} {group.protocol_type or '-'} {group.state}")

    def do_restart(self, plain: list[str], options: dict[str, str]) -> None:
        self.shard = GroupShard(self.limits)
        self.requests.clear()
        for record in self.log:
            self.shard.replay(record.key, record.value)
        self._observe(self.shard.finish_load(self.now))

    # -- trace ------------------------------------------------------------------------------

    def _client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def _ticket(self, label: str) -> int:
        self.tickets += 1
        self.requests[self.tickets] = label
        return self.tickets

    def _observe(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.log.append(record)
            self.trace.append("write " + _format_record(record))
        for ticket, response in outcome.responses:
            label = self.requests.pop(ticket)
            client = self.clients.get(label.split(" ")[0])
            if client is not None and isinstance(response, JoinResponse):
                if response.error in (ErrorCode.none, ErrorCode.member_id_required):
                    client.member_id = response.member_id
                if response.error is ErrorCode.none:
                    client.generation = response.generation_id
            self.trace.append(f"{label}: {_format_response(response)}")
        group = self.shard.state.classic_groups.get(GROUP)
        if outcome.records or outcome.responses:
            self.trace.append(f"{GROUP} is {group.state.value if group else 'unknown'}")


def _format_record(record: StoredRecord) -> str:
    key = decode_key(record.key)
    if isinstance(key, OffsetKey):
        if record.value is None:
            return f"offset {key.topic}-{key.partition} tombstone"
        return f"offset {key.topic}-{key.partition} {decode_offset_value(record.value).offset}"
    assert isinstance(key, GroupKey)
    if record.value is None:
        return f"group {key.group} tombstone"
    group = decode_group_value(record.value)
    members = " ".join(f"{m.member_id}={m.assignment.decode()}" for m in group.members)
    return f"group {key.group} generation {group.generation} [{members}]"


def _format_response(response: object) -> str:
    if isinstance(response, JoinResponse):
        if response.error is not ErrorCode.none:
            return f"{response.error.name} {response.member_id or '-'}"
        members = " ".join(f"{m.member_id}={m.metadata.decode()}" for m in response.members)
        text = (
            f"ok {response.member_id} generation {response.generation_id} {response.protocol_name}"
        )
        text += f" leader {response.leader} [{members}]"
        return text + (" skip_assignment" if response.skip_assignment else "")
    if isinstance(response, SyncResponse):
        if response.error is not ErrorCode.none:
            return response.error.name
        return f"ok {response.assignment.decode() or '(empty)'}"
    if isinstance(response, LeaveResponse):
        return " ".join(
            f"{member.member_id or member.group_instance_id}={error.name}"
            for member, error in response.members
        )
    if isinstance(response, DescribedGroup):
        members = " ".join(
            f"{m.member_id}={m.metadata.decode()}/{m.assignment.decode()}" for m in response.members
        )
        kind = f"{response.protocol_type or '-'} {response.protocol_name or '-'}"
        return f"{response.state} {kind} [{members}]"
    if isinstance(response, ErrorCode):
        return response.name
    assert isinstance(response, tuple)
    return " ".join(
        entry.name
        if isinstance(entry, ErrorCode)
        else f"{entry.topic}-{entry.partition}={entry.committed.offset}:{entry.committed.metadata}"
        for entry in response
    )
