"""The settings of one mirror worker: frozen objects in a JSON file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.http_security.settings import OPEN, HttpSecurity, check_binding
from local_cluster.log_format import LogFormat
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


def _start_text(value: object) -> object:
    """Return a time as text. YAML parses an unquoted time; one without a zone is in UTC."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return value


Pattern = Annotated[str, AfterValidator(_check_pattern)]
Positive = Annotated[int, Field(gt=0)]
# A name becomes part of a topic name, so Kafka's rule for topic names applies.
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._\-]+$", max_length=100)]

REPLICAS_MAX = 100
"""Largest replication factor that a link may ask for."""

_STRICT = ConfigDict(extra="forbid")
_DOCUMENTED = ConfigDict(extra="forbid", use_attribute_docstrings=True)

PROBE_POLICIES = Policies(out_of_range="skip", truncated="skip", recreated="skip", corrupt="skip")
"""Policies of the probe topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTuning:
    """Settings of how a link copies. The topology file has the same ones under `settings`."""

    __pydantic_config__ = _DOCUMENTED

    start: Annotated[str, BeforeValidator(_start_text), AfterValidator(check_start)] = "earliest"
    """Where the copy of a new partition starts: earliest, latest, a time such as
    2026-01-01T00:00:00Z, or mm2 (where MirrorMaker 2 stopped; mm2:TOPIC names its offsets topic).
    It is decided once per partition."""
    source_bytes_per_second: Annotated[int, Field(strict=True, ge=0)] = 0
    """Bytes per second that the link's workers read from the source together; 0 for no limit.
    `heliograph mirror throttle` changes it while the link runs."""
    target_bytes_per_second: Annotated[int, Field(strict=True, ge=0)] = 0
    """Bytes per second that the link's workers write to the target together; 0 for no limit."""
    replication_factor: Annotated[int, Field(strict=True, ge=-1, le=REPLICAS_MAX)] = -1
    """Replicas of topics that the link creates on the target; -1 for the target's default."""
    on_unmapped_target: Literal["fail", "append"] = "fail"
    """What to do if the target partition holds records that no offset map explains. A copy that
    shares its name with others always accepts them."""
    deletion_grace_ms: Annotated[int, Field(strict=True, gt=0)] = 600_000
    """Milliseconds after the deletion of a source topic before its copy is deleted, with
    `deletions: mirror`."""
    coalesce_batches: bool = True
    """Copy a run of tiny batches as one batch; the records stay the same."""
    trace_batches: bool = False
    """Create an OpenTelemetry span for each batch. The OTEL_* variables in the worker's environment
    (such as OTEL_TRACES_EXPORTER) say where the spans go."""
    source_group: str = ""
    """A consumer group at the source for which the link commits its positions, so that lag tools
    see them; empty for none. No consumer may use it."""
    completeness_retention_ms: Annotated[int, Field(strict=True, gt=0)] = 7 * 24 * 3_600_000
    """Milliseconds for which the link keeps where its source ended and until when its copies were
    complete: as far back `as of` can ask. It applies when the topic is created."""
    mm2_topics: Literal["off", "source", "target"] = "off"
    """Also write MirrorMaker 2's topics (offset syncs, checkpoints, heartbeats), for tools that
    read them. The value is the side of the offset syncs (`offset-syncs.topic.location`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings(LinkTuning):
    """One direction of mirroring: the selected topics of one source, copied into the target."""

    __pydantic_config__ = _STRICT

    name: Name
    source_alias: Name
    source_bootstrap: str
    source_security: ClientSecurity = PLAINTEXT
    topics: tuple[Pattern, ...] = (".*",)
    """Full-match regular expressions; an empty list selects nothing."""
    topics_exclude: tuple[Pattern, ...] = TOPICS_EXCLUDE_DEFAULT
    on: Policies = field(default_factory=Policies)
    """What to do in each trouble of a partition."""
    names: TopicNames = field(default_factory=TopicNames)
    """Names of the copies."""
    origin: Literal["any", "local"] = "any"
    """`local` copies only records that were produced in the source cluster, and none that a mirror
    wrote there. Needed if names do not tell the origin of a copy."""
    filter: RecordFilter = field(default_factory=RecordFilter)
    """Records to copy; with a filter or transforms every batch is opened."""
    transform: Transforms = ()
    """Changes to each copied record, in order."""
    groups: tuple[Pattern, ...] = (".*",)
    """Full-match patterns of the consumer groups whose positions are translated."""
    groups_exclude: tuple[Pattern, ...] = GROUPS_EXCLUDE_DEFAULT
    sync_group_offsets: bool = False
    """Whether translated positions are committed for the same groups on the target."""
    rewind_group_offsets: bool = False
    """Whether a group's position on the target also moves back when its source's does."""
    sync_configs: bool = False
    """Whether configs of copies follow their sources."""
    configs: tuple[Pattern, ...] = (".*",)
    """Full-match patterns of the configs that follow."""
    configs_exclude: tuple[Pattern, ...] = CONFIGS_EXCLUDE_DEFAULT
    sync_acls: bool = False
    """Whether ACLs on copies follow those on their sources."""
    sync_group_acls: bool = False
    """Whether ACLs of the groups that `groups` selects follow."""
    sync_transactional_id_acls: bool = False
    """Whether ACLs of transactional ids follow."""
    sync_quotas: bool = False
    """Whether client quotas follow."""
    quota_users: tuple[Pattern, ...] = (".*",)
    """Full-match patterns of the users whose quotas follow."""
    quota_client_ids: tuple[Pattern, ...] = (".*",)
    """The same for client ids."""
    quota_ips: tuple[Pattern, ...] = (".*",)
    """The same for addresses."""
    quota_defaults: bool = False
    """Whether quotas of default users, client ids and addresses follow."""
    sync_users: bool = False
    """Whether SCRAM users follow, between two clusters of ours."""
    users: tuple[Pattern, ...] = ()
    """Full-match patterns of the users that follow."""
    users_exclude: tuple[Pattern, ...] = ()
    leads: tuple[Pattern, ...] = ()
    """Full-match patterns of topics whose copies the link owns although it did not create them
    (`link/config_ownership.py`): they follow it in configs and ACLs. No opposite link may claim the
    same topics."""
    deletions: Literal["report", "mirror"] = "report"
    """Whether deletions of configs, ACLs, quotas and topics at the source are mirrored to the
    target."""
    probe: bool = False
    """Whether the link's probe topic is copied too, whatever `topics` and `topics_exclude` say
    (`formats/probe.py`)."""

    @property
    def probe_topic(self) -> str | None:
        """Return the link's own probe topic on the source; None if it is not copied."""
        return probe_topic_name(self.name) if self.probe else None

    def for_topic(self, topic: str) -> LinkSettings:
        """Return the settings for one source topic.

        The probe topic belongs to the aggregator. It is copied whole and from its first record on;
        otherwise the probe would report records as lost that the link leaves out. No operator needs
        to decide about records that its source loses: the journal names the gap.
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
        """Return the settings that decide which records are copied, without those at their
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
        """Return the name of a source topic's copy on the target."""
        return self.names.target_topic(self.source_alias, topic)

    @property
    def translates_groups(self) -> bool:
        return self.sync_group_offsets or self.mm2_topics != "off"

    @property
    def syncs_rights(self) -> bool:
        """Return whether ACLs of groups or transactional ids, quotas or users follow."""
        return (
            self.sync_group_acls
            or self.sync_transactional_id_acls
            or self.sync_quotas
            or self.sync_users
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every limit of a worker, with its unit."""

    __pydantic_config__ = _STRICT

    fetch_wait_ms_max: Positive = 500
    fetch_bytes_max: Positive = 32 * 1024 * 1024
    fetch_partition_bytes_max: Positive = 2 * 1024 * 1024
    rules_fetch_bytes_max: Positive = 128 * 1024
    """Bytes of one fetch if a filter or transforms open every record. Larger well-compressed
    fetches would keep the worker from its heartbeats until its lease expires."""
    fetch_ahead_bytes_min: Positive = 256 * 1024
    """The next poll is sent before the last response is processed, if that response is this large.
    Processing it takes a millisecond and more; a smaller one is not worth it."""
    partition_pending_bytes_max: Positive = 8 * 1024 * 1024
    """Bytes of one partition that are fetched and not acknowledged; above it, fetching stops."""
    pending_bytes_max: Positive = 256 * 1024 * 1024
    """The same over all partitions of a link."""
    produce_request_bytes_max: Positive = 8 * 1024 * 1024
    """A request is closed when it reaches this size; a single larger batch goes alone."""
    produce_requests_in_flight_max: Positive = 5
    """Per target broker."""
    produce_timeout_ms: Positive = 30_000
    map_flush_ms: Positive = 500
    group_sync_ms: Positive = 1_000
    """Time between two looks at the groups of the source."""
    source_group_ms: Positive = 5_000
    """Time between two commits of a link's positions for its `source_group`."""
    topic_sync_ms: Positive = 5_000
    """Time between two looks at the configs, ACLs and quotas of both sides."""
    heartbeat_topic_ms: Positive = 1_000
    """Time between two records of MirrorMaker 2's heartbeats topic."""
    controls_ms: Positive = 1_000
    """Time between two looks at operators' orders."""
    proofs_at_once_max: Positive = 64
    """Partitions of a link that prove their positions at the same time. A start with thousands of
    them must not flood both clusters with requests."""
    discovery_ms: Positive = 1_000
    back_off_ms_min: Positive = 100
    back_off_ms_max: Positive = 2_000
    pause_ms_min: Positive = 1_000
    pause_ms_max: Positive = 60_000
    """Pauses of a partition in trouble under the policy `pause`; they double up to this."""
    audit_cpu_share: Annotated[float, Field(ge=0, le=1)] = 0.03
    """Share of one core for the audit of the targets' logs; 0 turns it off."""
    completeness_ms: Annotated[int, Field(ge=0)] = 1_000
    """Time between two records of what has changed in the completeness of copies; 0 turns it
    off."""
    drain_ms_max: Positive = 10_000
    """How long a clean stop waits for batches in flight."""
    epoch_quiet_ms: Positive = 60_000
    """How long no write of ours may arrive before the producer epoch is raised, and before missing
    copies on a shared target count as lost."""

    @property
    def retry_ms_max(self) -> int:
        """Return the longest pause before a refused request is retried."""
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
    """Everything that a mirror worker needs to run."""

    __pydantic_config__ = _STRICT

    worker_id: Name
    """Unique among the workers of a target, and the same after a restart."""
    target_alias: Name
    target_bootstrap: str
    target_security: ClientSecurity = PLAINTEXT
    links: tuple[LinkSettings, ...]
    ready_file: str
    """A JSON file {"pid", "state", "http_host", "http_port", "settings"}, written when the worker
    is a member of its group, and after each reload. `settings` is the SHA-256 of the settings file.
    """
    http_host: str = "127.0.0.1"
    http_port: int = 0
    """0 selects a free port, which the ready file names."""
    http_security: HttpSecurity = OPEN
    """Who may read the status and give orders. Health is open."""
    session_timeout_ms: Positive = 10_000
    heartbeat_ms: Positive = 1_000
    log_format: LogFormat = "text"
    """Lines for people, or one JSON object per line."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        check_binding(self.http_host, self.http_security)
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
    """Parse what `dump_settings` returned. Raises pydantic.ValidationError."""
    return _ADAPTER.validate_json(text)


def dump_settings(settings: MirrorSettings) -> bytes:
    """Return the JSON that `load_settings` reads."""
    return _ADAPTER.dump_json(settings, indent=2)
