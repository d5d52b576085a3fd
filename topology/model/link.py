"""Links: what is copied from one cluster into another, and how."""

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
    """Which topics a link copies: full matches of any include, of no exclude."""

    include: Annotated[list[TopicPattern], Field(min_length=1)]
    """Topic names or regular expressions."""
    exclude: list[TopicPattern] = list(TOPICS_EXCLUDE_DEFAULT)
    """Topic names or regular expressions; the default is MirrorMaker 2's. Internal topics are
    left out in any case."""


Topics = Annotated[
    Annotated[list[TopicPattern], Field(min_length=1), Tag("list")]
    | Annotated[TopicFilter, Tag("mapping")],
    mapping_or("list"),
]


class LinkNames(Entry):
    """Names of single copies; `map` comes before `pattern`."""

    map: dict[TopicName, TopicName] = {}
    """Topic of the source to topic of the target."""
    pattern: Annotated[str, AfterValidator(_check_naming_pattern)] | None = None
    """A regular expression with one group that the whole name must match."""
    to: Annotated[str, AfterValidator(_check_naming_template)] | None = None
    """Name for what `pattern` matches; `$1` stands for its group."""
    otherwise: Literal["prefixed", "identity"] = "prefixed"
    """Names of all other copies."""


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
    """Which consumer groups a link looks at, and what it does for them."""

    sync: bool = False
    """Commit translated positions for the same groups on the target, as soon as they change."""
    rewind: bool = False
    """Move a group's position on the target back as well, after its source."""
    include: list[TopicPattern] = [".*"]
    """Names or regular expressions of groups, matched in full."""
    exclude: list[TopicPattern] = list(GROUPS_EXCLUDE_DEFAULT)
    """Groups left out; default: MirrorMaker 2's, and the mirrors' own."""


class LinkConfigs(Entry):
    """Which configs of its topics a link keeps as they are at the source."""

    sync: bool = False
    """Set on copies what is set on their source topics, as soon as it changes."""
    include: list[TopicPattern] = [".*"]
    """Names or regular expressions of configs, matched in full."""
    exclude: list[TopicPattern] = list(CONFIGS_EXCLUDE_DEFAULT)
    """Configs left alone; default: MirrorMaker 2's."""


class LinkAcls(Entry):
    """Whether a link keeps the ACLs of its topics as they are at the source."""

    sync: bool = False
    """Give copies the ACLs of their source topics; who may write there may not write here."""


class Link(Entry):
    """One direction of copying, from one cluster into another."""

    name: Name | None = None
    """Unique name; default: source, a dash, target."""
    source: Name
    """Name of the cluster to read."""
    target: Name
    """Name of the cluster to write."""
    topics: Topics
    """A list of includes, or a mapping of `include` and `exclude`."""
    names: Names = "prefixed"
    """What copies are called: `prefixed` is <source>.<topic>, `identity` the topic's own name, a
    mapping names single copies."""
    merge: Merge = []
    """Topics that keep their name and are copied into one topic of the target by several links."""
    origin: Literal["any", "local"] | None = None
    """`local` copies only what was born in the source, and nothing that a mirror wrote there.
    Default: `any` where all copies are prefixed, else `local`."""
    filter: RecordFilter = RecordFilter()
    """Which records are copied; with a filter or transforms every batch is opened, which is dear.
    What has begun to copy keeps its filter and transforms."""
    transform: Transforms = ()
    """What is changed in each record that is copied, in order."""
    groups: LinkGroups = LinkGroups()
    """Consumer groups that may fail over along the link."""
    on: Policies = Policies()
    """What to do about each trouble of a partition: fail, pause or skip."""
    configs: LinkConfigs = LinkConfigs()
    """Configs that follow the source."""
    acls: LinkAcls = LinkAcls()
    """ACLs that follow the source."""
    leads: list[TopicPattern] = []
    """Topics that were on both sides before the link and whose copies follow it in configs and
    ACLs, matched in full; copies that it makes, and prefixed ones, follow it anyway."""
    deletions: Literal["report", "mirror"] = "report"
    """Whether configs, ACLs and topics that are gone at the source are taken away on the target
    too; topics after `settings.deletion_grace_ms`, and only where nothing else is in the copy."""
    probe: bool | None = None
    """Whether the target's aggregator probes the link end to end. Default: what its `aggregator`
    says, where both clusters are our own, else false."""
    settings: LinkTuning = LinkTuning()
    """How the link copies."""

    @property
    def effective_name(self) -> str:
        return self.name or f"{self.source}-{self.target}"

    @property
    def topic_names(self) -> TopicNames:
        merge = tuple(self.merge)
        if isinstance(self.names, LinkNames):
            names = self.names
            if (names.pattern is None) != (names.to is None):
                # Half a rule, which `validate` reports; what else is wrong is found without it.
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
