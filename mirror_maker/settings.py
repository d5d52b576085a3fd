"""What one mirror worker is told when it starts: a frozen object in a JSON file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.probe import probe_topic_name
from mirror_maker.rules.rule_settings import RecordFilter, Transforms, fingerprint
from mirror_maker.rules.start_position import check_start
from mirror_maker.rules.trouble import Policies

TOPICS_EXCLUDE_DEFAULT = (r".*[\-\.]internal", r".*\.replica", r"__.*")
"""MirrorMaker 2's own default."""

CONFIGS_EXCLUDE_DEFAULT = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)
"""MirrorMaker 2's own default."""

GROUPS_EXCLUDE_DEFAULT = (r"console-consumer-.*", r"connect-.*", r"__.*", r"heliograph-.*")
"""MirrorMaker 2's own default, and the groups of the mirrors themselves."""


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]
Positive = Annotated[int, Field(gt=0)]
# A name becomes part of a topic name, so Kafka's rule for topic names holds for it.
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._\-]+$", max_length=100)]

_STRICT = ConfigDict(extra="forbid")

PROBE_POLICIES = Policies(out_of_range="skip", truncated="skip", recreated="skip", corrupt="skip")
"""What is done about troubles of the probe topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """One direction of mirroring: everything selected from one source into the target."""

    __pydantic_config__ = _STRICT

    name: Name
    source_alias: Name
    source_bootstrap: str
    source_security: ClientSecurity = PLAINTEXT
    topics: tuple[Pattern, ...] = (".*",)
    """Full-match regular expressions; an empty list selects nothing."""
    topics_exclude: tuple[Pattern, ...] = TOPICS_EXCLUDE_DEFAULT
    replication_factor: int = -1
    """Of the topics created on the target; -1 takes the target's default."""
    coalesce_batches: bool = True
    """Whether runs of tiny batches are copied as one batch each; the records stay what they are."""
    on_unmapped_target: Literal["fail", "append"] = "fail"
    """What to do where the target partition has records that no map explains. Where the copy
    shares its name with others (`names`), such records are no surprise."""
    start: Annotated[str, AfterValidator(check_start)] = "earliest"
    """Where a partition begins that was never copied (`start_position.py`). Decided once."""
    on: Policies = field(default_factory=Policies)
    """What to do about each trouble of a partition."""
    names: TopicNames = field(default_factory=TopicNames)
    """What the copies are called."""
    origin: Literal["any", "local"] = "any"
    """`local` copies only records that were born in the source cluster: what a mirror wrote there
    is left out. Needed wherever names do not tell where a copy came from."""
    filter: RecordFilter = field(default_factory=RecordFilter)
    """Which records are copied; with it, or with `transform`, every batch is opened."""
    transform: Transforms = ()
    """What is changed in each record, in order."""
    groups: tuple[Pattern, ...] = (".*",)
    """Full-match patterns of the consumer groups whose positions are translated."""
    groups_exclude: tuple[Pattern, ...] = GROUPS_EXCLUDE_DEFAULT
    sync_group_offsets: bool = False
    """Whether translated positions are committed for the same groups on the target."""
    rewind_group_offsets: bool = False
    """Whether a group's position on the target may be moved back after its source."""
    source_bytes_per_second: Annotated[int, Field(ge=0)] = 0
    """Rate of reading, of all workers together, until an operator sets another; 0 is no limit."""
    target_bytes_per_second: Annotated[int, Field(ge=0)] = 0
    """Rate of writing, likewise."""
    sync_configs: bool = False
    """Whether configs of copies follow their sources."""
    configs: tuple[Pattern, ...] = (".*",)
    """Full-match patterns of the configs that follow."""
    configs_exclude: tuple[Pattern, ...] = CONFIGS_EXCLUDE_DEFAULT
    sync_acls: bool = False
    """Whether ACLs on copies follow those on their sources."""
    leads: tuple[Pattern, ...] = ()
    """Full-match patterns of topics whose copies follow this link in configs and ACLs though it
    did not make them (`config_ownership.py`). No opposite link may say the same."""
    deletions: Literal["report", "mirror"] = "report"
    """Whether what is gone at the source is taken away on the target: configs, ACLs, topics."""
    deletion_grace_ms: Positive = 600_000
    """How long a topic must have been gone at the source before its copy is deleted."""
    trace_batches: bool = False
    """Whether an OpenTelemetry span is made for each batch; see `batch_spans.py`."""
    source_group: str = ""
    """A group at the source for which the link's positions are committed, so that ordinary lag
    tools see them; empty for none. No consumer may use it."""
    mm2_topics: Literal["off", "source", "target"] = "off"
    """Whether MirrorMaker 2's topics (offset syncs, checkpoints, heartbeats) are written as well,
    and on which side its offset syncs lie (`offset-syncs.topic.location`)."""
    probe: bool = False
    """Whether the link's probe topic is copied as well, whatever `topics` and `topics_exclude` say;
    see `formats/probe.py`."""

    @property
    def probe_topic(self) -> str | None:
        """The link's own probe topic on the source; None where it is not copied."""
        return probe_topic_name(self.name) if self.probe else None

    def for_topic(self, topic: str) -> LinkSettings:
        """The settings as they hold for one source topic.

        The probe topic belongs to the aggregator. It is copied from its first record on, and whole
        (`LinkLogs.source`), or the probe would report as lost what the link leaves out by its
        settings. Nobody has to decide about what its source loses: the journal names the gap.
        """
        if topic != self.probe_topic:
            return self
        return replace(
            self,
            start="earliest",
            on_unmapped_target="append",
            on=PROBE_POLICIES,
        )

    @property
    def terms(self) -> dict[str, str]:
        """The settings that decide which records are copied, and as what, without those at their
        defaults.

        They must not change while a link copies; see `MapStore`.
        """
        terms: dict[str, str] = {}
        if self.origin != "any":
            terms["origin"] = self.origin
        rules = fingerprint(self.filter, self.transform)
        if rules:
            terms["records"] = rules
        return terms

    def copy_name(self, topic: str) -> str:
        """What the copy of a source topic is called on the target."""
        return self.names.target_topic(self.source_alias, topic)

    @property
    def translates_groups(self) -> bool:
        return self.sync_group_offsets or self.mm2_topics != "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every bound of a worker, with its unit."""

    __pydantic_config__ = _STRICT

    fetch_wait_ms_max: Positive = 500
    fetch_bytes_max: Positive = 32 * 1024 * 1024
    fetch_partition_bytes_max: Positive = 2 * 1024 * 1024
    rules_fetch_bytes_max: Positive = 128 * 1024
    """Of one answer, where a filter or transforms open every record: what well-compressed megabytes
    hold would keep the worker from its heartbeats until its lease has run out."""
    fetch_ahead_bytes_min: Positive = 256 * 1024
    """The next poll leaves before the last answer is taken in where that is so large: it takes a
    millisecond and more to be taken in, and for less nothing is gained."""
    partition_pending_bytes_max: Positive = 8 * 1024 * 1024
    """Fetched and not acknowledged, of one partition; above it, it is not fetched."""
    pending_bytes_max: Positive = 256 * 1024 * 1024
    """The same over all partitions of a link."""
    produce_request_bytes_max: Positive = 8 * 1024 * 1024
    """A request is closed when it has reached this; a single larger batch goes alone."""
    produce_requests_in_flight_max: Positive = 5
    """Per target broker."""
    produce_timeout_ms: Positive = 30_000
    map_flush_ms: Positive = 500
    group_sync_ms: Positive = 1_000
    """Between two looks at the groups of the source."""
    source_group_ms: Positive = 5_000
    """Between two commits of a link's positions for its `source_group`."""
    topic_sync_ms: Positive = 5_000
    """Between two looks at the configs and ACLs of both sides."""
    heartbeat_topic_ms: Positive = 1_000
    """Between two records of MirrorMaker 2's heartbeats topic."""
    controls_ms: Positive = 1_000
    """Between two looks at what operators have told the links."""
    proofs_at_once_max: Positive = 64
    """Partitions of a link whose positions are proved at the same time: what starts with thousands
    of them must not bury both clusters in questions."""
    discovery_ms: Positive = 1_000
    back_off_ms_min: Positive = 100
    back_off_ms_max: Positive = 2_000
    pause_ms_min: Positive = 1_000
    pause_ms_max: Positive = 60_000
    """Pauses of a partition in trouble under the policy `pause`; they double up to this."""
    audit_cpu_share: Annotated[float, Field(ge=0, le=1)] = 0.03
    """Of one core, for comparing the targets' logs with what was acknowledged; 0 turns it off."""
    drain_ms_max: Positive = 10_000
    """How long a clean stop waits for batches in flight."""
    epoch_quiet_ms: Positive = 60_000
    """How long nothing of ours may arrive before the producer epoch is raised, and before copies
    that a shared target seems to have lost are counted as lost."""

    @property
    def retry_ms_max(self) -> int:
        """The longest pause before something that was refused is tried again."""
        return max(
            self.back_off_ms_max,
            self.controls_ms,
            self.discovery_ms,
            self.group_sync_ms,
            self.heartbeat_topic_ms,
            self.pause_ms_max,
            self.source_group_ms,
            self.topic_sync_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """Everything a mirror worker needs to run."""

    __pydantic_config__ = _STRICT

    worker_id: Name
    """Unique among the workers of a target, and the same after a restart."""
    target_alias: Name
    target_bootstrap: str
    target_security: ClientSecurity = PLAINTEXT
    links: tuple[LinkSettings, ...]
    ready_file: str
    """JSON {"pid", "state", "http_host", "http_port"}, there once the worker takes part."""
    http_host: str = "127.0.0.1"
    http_port: int = 0
    """0 picks a free port; the ready file tells which."""
    session_timeout_ms: Positive = 10_000
    heartbeat_ms: Positive = 1_000
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        names = [link.name for link in self.links]
        if len(set(names)) != len(names):
            raise ValueError(f"two links have the same name: {sorted(names)}")
        aliases = [link.source_alias for link in self.links]
        if self.target_alias in aliases:
            raise ValueError(f"a link copies {self.target_alias} into itself")
        if self.heartbeat_ms * 3 > self.session_timeout_ms:
            raise ValueError("three heartbeats must fit into the session timeout")


_ADAPTER = TypeAdapter(MirrorSettings)


def load_settings(path: Path) -> MirrorSettings:
    """Read a settings file. Raises pydantic.ValidationError or OSError."""
    return parse_settings(path.read_bytes())


def parse_settings(text: str | bytes) -> MirrorSettings:
    """What `dump_settings` wrote. Raises pydantic.ValidationError."""
    return _ADAPTER.validate_json(text)


def dump_settings(settings: MirrorSettings) -> bytes:
    """The JSON that `load_settings` reads."""
    return _ADAPTER.dump_json(settings, indent=2)
