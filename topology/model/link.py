"""Links: which topics are copied from one cluster into another, and how."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Tag, WithJsonSchema

from mirror_maker.formats.naming import GROUP_MARK, TopicNames
from mirror_maker.rules.rule_settings import RecordFilter, Transforms
from mirror_maker.rules.trouble import Policies
from mirror_maker.settings import (
    CONFIGS_EXCLUDE_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    LinkTuning,
)
from topology.model.scalars import (
    TOPIC_PATTERN,
    Entry,
    Name,
    TopicName,
    TopicPattern,
    check_pattern,
    mapping_or,
)


def _check_naming_pattern(value: str) -> str:
    if re.compile(check_pattern(value)).groups != 1:
        raise ValueError("a regular expression with one group")
    return value


def _check_naming_template(value: str) -> str:
    if GROUP_MARK not in value or not re.fullmatch(TOPIC_PATTERN, value.replace(GROUP_MARK, "")):
        raise ValueError(f"a topic name in which {GROUP_MARK} stands for the pattern's group")
    return value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class TopicFilter(Entry):
    """Topics that a link copies: names that match any `include` and no `exclude` in full."""

    include: Annotated[list[TopicPattern], Field(min_length=1)]
    """Topic names or regular expressions."""
    exclude: list[TopicPattern] = list(TOPICS_EXCLUDE_DEFAULT)
    """Topic names or regular expressions; default: MirrorMaker 2's. Internal topics are never
    copied."""


Topics = Annotated[
    Annotated[list[TopicPattern], Field(min_length=1), Tag("list")]
    | Annotated[TopicFilter, Tag("mapping")],
    mapping_or("list"),
]


class LinkNames(Entry):
    """Names of single copies; `map` has precedence over `pattern`."""

    map: dict[TopicName, TopicName] = {}
    """Name of the copy, by source topic."""
    pattern: Annotated[str, AfterValidator(_check_naming_pattern)] | None = None
    """A regular expression with one group, which must match the whole topic name."""
    to: Annotated[str, AfterValidator(_check_naming_template)] | None = None
    """Name of the copies of topics that `pattern` matches; `$1` stands for its group."""
    otherwise: Literal["prefixed", "identity"] = "prefixed"
    """Naming of all other copies."""


Names = Annotated[
    Annotated[Literal["prefixed", "identity"], Tag("text")] | Annotated[LinkNames, Tag("mapping")],
    mapping_or("text"),
]
Merge = Annotated[
    list[TopicPattern],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class LinkGroups(Entry):
    """Consumer groups that a link syncs."""

    sync: bool = False
    """Commit translated offsets for the same groups on the target as soon as they change."""
    rewind: bool = False
    """Also move committed offsets on the target back when the source's move back."""
    include: list[TopicPattern] = [".*"]
    """Names or regular expressions of groups, matched in full."""
    exclude: list[TopicPattern] = list(GROUPS_EXCLUDE_DEFAULT)
    """Groups that are excluded; default: MirrorMaker 2's, and the groups of mirrors."""


class LinkConfigs(Entry):
    """Topic configs that a link syncs from the source."""

    sync: bool = False
    """Set the configs of source topics on their copies as soon as they change."""
    include: list[TopicPattern] = [".*"]
    """Names or regular expressions of configs, matched in full."""
    exclude: list[TopicPattern] = list(CONFIGS_EXCLUDE_DEFAULT)
    """Configs that are never synced; default: MirrorMaker 2's."""


class LinkAcls(Entry):
    """ACLs that a link syncs from the source."""

    sync: bool = False
    """Set the ACLs of source topics on their copies, without the right to write."""
    groups: bool = False
    """With `sync`, also set the ACLs of the groups that `groups` of the link includes."""
    transactional_ids: bool = False
    """With `sync`, also set the ACLs of transactional ids."""


class LinkQuotas(Entry):
    """Client quotas that a link syncs: those of which every part is selected."""

    sync: bool = False
    """Set the client quotas of the source on the target. Values of the target's owner stay."""
    users: list[TopicPattern] = [".*"]
    """Names or regular expressions of users, matched in full."""
    client_ids: list[TopicPattern] = [".*"]
    """Names or regular expressions of client ids, matched in full."""
    ips: list[TopicPattern] = [".*"]
    """Addresses or regular expressions of addresses, matched in full."""
    defaults: bool = False
    """Also sync quotas of default users, client ids and addresses. They hold for the mirror too."""


class LinkUsers(Entry):
    """SCRAM users that a link carries over, with their passwords, between two clusters of ours."""

    sync: bool = False
    """Set the users of the source on the target. Users of the target's owner stay."""
    include: list[TopicPattern] = []
    """Names or regular expressions of users, matched in full; `sync` needs at least one. Users of
    brokers, services and administrators never follow."""
    exclude: list[TopicPattern] = []
    """Users that are excluded."""


class Link(Entry):
    """Copies topics from one cluster into another, in one direction."""

    name: Name | None = None
    """Unique name; default: SOURCE-TARGET."""
    source: Name
    """Name of the cluster to read from."""
    target: Name
    """Name of the cluster to write to."""
    topics: Topics
    """A list of topics to include, or a mapping of `include` and `exclude`."""
    names: Names = "prefixed"
    """Names of the copies: `prefixed` is <source>.<topic>, `identity` is the topic's own name, a
    mapping names single copies."""
    merge: Merge = []
    """Topics that keep their name and that several links copy into one topic of the target."""
    origin: Literal["any", "local"] | None = None
    """`local` copies only records that were produced in the source cluster, and none that a mirror
    wrote there. Default: `any` if all copies are prefixed, else `local`."""
    filter: RecordFilter = RecordFilter()
    """Records to copy. With a filter or transforms every batch is decompressed, which costs much
    CPU. A copy keeps the filter and the transforms that it started with."""
    transform: Transforms = ()
    """Changes to each copied record, in order."""
    groups: LinkGroups = LinkGroups()
    """Consumer groups that can fail over along the link."""
    on: Policies = Policies()
    """What to do in each trouble of a partition: fail, pause or skip."""
    configs: LinkConfigs = LinkConfigs()
    """Config sync."""
    acls: LinkAcls = LinkAcls()
    """ACL sync."""
    quotas: LinkQuotas = LinkQuotas()
    """Sync of client quotas."""
    users: LinkUsers = LinkUsers()
    """Sync of SCRAM users."""
    leads: list[TopicPattern] = []
    """Topics that existed on both sides before the link, and whose copies the link may change in
    configs and ACLs; matched in full. It may always change copies that it created, and prefixed
    copies."""
    deletions: Literal["report", "mirror"] = "report"
    """Whether deletions at the source (configs, ACLs, quotas, users, topics) are mirrored to the
    target. Copies are deleted after `settings.deletion_grace_ms`, and only if they hold no other
    records."""
    probe: bool | None = None
    """Whether the target's aggregator probes the link end to end. Default: the `probe` of its
    `aggregator` if both clusters are our own, else false."""
    settings: LinkTuning = LinkTuning()
    """Further settings of how the link copies."""

    @property
    def effective_name(self) -> str:
        return self.name or f"{self.source}-{self.target}"

    @property
    def topic_names(self) -> TopicNames:
        merge = tuple(self.merge)
        if isinstance(self.names, LinkNames):
            names = self.names
            if (names.pattern is None) != (names.to is None):
                # `validate` reports a half rule; without it, other problems are found as well.
                names = names.model_copy(update={"pattern": None, "to": None})
            return TopicNames(
                otherwise=names.otherwise,
                map=dict(names.map),
                pattern=names.pattern,
                to=names.to,
                merge=merge,
            )
        return TopicNames(otherwise=self.names, merge=merge)

    @property
    def effective_origin(self) -> Literal["any", "local"]:
        return self.origin or ("any" if self.topic_names.is_prefixed else "local")

    @property
    def topic_filter(self) -> TopicFilter:
        if isinstance(self.topics, TopicFilter):
            return self.topics
        return TopicFilter(include=self.topics)
