"""`heliograph consume`: its options and output.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import Format
from topology.cli.command_line import EXIT_USAGE, fail
from topology.cli.completion import topic_names
from topology.records.payloads import Encoding

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from topology.admin.arguments import Place
    from topology.records.provenance import Provenance
    from topology.records.shown_record import ReadRecord

EncodingOption = Annotated[
    Encoding, typer.Option("--encoding", help="How bytes of keys, values and headers are written.")
]
FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PLACE",
        help="`start`, `end`, an offset, -N records from the end, an age such as 2h, or a time."
        " A group starts there only without a committed offset.",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="PLACE", help="Default: the present end."),
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Wait for new records, until Ctrl-C.")
]
NumberOption = Annotated[
    int | None, typer.Option("--number", "-n", min=1, help="Stop after this many records.")
]
GroupOption = Annotated[
    str | None,
    typer.Option("--group", "-g", help="Read as a member of this group, and commit."),
]
CommittedOption = Annotated[
    bool, typer.Option("--committed", help="No records of open or aborted transactions.")
]
GlobalOption = Annotated[
    bool,
    typer.Option(
        "--global",
        help="TOPIC is a topic of the sources: read all its copies on this aggregate, each"
        " record with its datacenter, topic, partition and offset there.",
    ),
]
DatacenterOption = Annotated[
    list[str] | None,
    typer.Option("--datacenter", help="With --global: only records of this datacenter."),
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="TEMPLATE", help="Such as '{key}={value}', instead of a line."
    ),
]
FROM_DEFAULT: Final = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The checked options of one call."""

    topics: Mapping[str, list[int] | None]
    place: Place
    until: Place | None
    group: str | None
    follow: bool
    committed_only: bool
    records_max: int | None
    encoding: Encoding
    template: str | None
    is_global: bool
    datacenters: tuple[str, ...]


@on_cluster
def consume(
    choice: ClusterChoice,
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC[:PARTITIONS]...",
            help="Such as orders, or orders:0,3-5.",
            autocompletion=topic_names,
        ),
    ],
    start: FromOption = FROM_DEFAULT,
    until: UntilOption = None,
    follow: FollowOption = False,
    number: NumberOption = None,
    group: GroupOption = None,
    committed: CommittedOption = False,
    is_global: GlobalOption = False,
    datacenter: DatacenterOption = None,
    template: TemplateOption = None,
    encoding: EncodingOption = Encoding.text,
) -> None:
    """Read records. With -o json each is one line that `produce --input json` reads."""
    from topology.admin.arguments import parse_partitions, parse_place
    from topology.records.shown_record import check_template

    now_ms = time.time_ns() // 1_000_000
    try:
        asked = Asked(
            topics=parse_partitions(topics),
            place=parse_place(start, now_ms),
            until=None if until is None else parse_place(until, now_ms),
            group=group,
            follow=follow,
            committed_only=committed,
            records_max=number,
            encoding=encoding,
            template=None if template is None else check_template(template),
            is_global=is_global,
            datacenters=tuple(datacenter or ()),
        )
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    _check(choice, asked)
    choice.run(lambda client: _consume(client, choice, asked))


def _check(choice: ClusterChoice, asked: Asked) -> None:
    """End the command for options that contradict each other."""
    if asked.follow and asked.until is not None:
        fail("name either --follow or --until", code=EXIT_USAGE)
    if asked.datacenters and not asked.is_global:
        fail("--datacenter goes with --global", code=EXIT_USAGE)
    if asked.is_global and choice.bootstrap is not None:
        fail("--global needs the links of a deployment, not --bootstrap", code=EXIT_USAGE)
    if asked.template is not None and choice.output is not Format.human:
        fail("name either --format or -o", code=EXIT_USAGE)
    if asked.group is not None and any(asked.topics.values()):
        fail("a group gets its partitions from its coordinator; name whole topics", code=EXIT_USAGE)


async def _consume(client: KafkaClient, choice: ClusterChoice, asked: Asked) -> None:
    from aiokafka.errors import KafkaError as AioKafkaError

    from topology.admin.places import chosen_partitions, place_offsets
    from topology.problems import DeployError
    from topology.records.clients import code_of, options_of
    from topology.records.consumption import Reading, ends_of, read_records

    address = choice.find()
    provenance = None
    topics = dict(asked.topics)
    if asked.is_global:
        provenance, topics = await _merged(client, choice, asked)
    places = await chosen_partitions(client, topics)
    ends = await ends_of(client, places, committed_only=asked.committed_only)
    if asked.until is not None:
        limits = await place_offsets(client, places, asked.until)
        ends = {at: min(ends[at], limits[at]) for at in places}
    reading = Reading(
        starts=await place_offsets(client, places, asked.place),
        group=asked.group,
        follow=asked.follow,
        committed_only=asked.committed_only,
        records_max=asked.records_max,
    )
    printer = _Printer(choice.output, asked, provenance)
    try:
        async with contextlib.aclosing(read_records(options_of(address), reading, ends)) as records:
            async for record in records:
                await printer.show(record)
    except (AioKafkaError, TimeoutError) as error:
        raise DeployError(code_of(error)) from error


async def _merged(
    client: KafkaClient, choice: ClusterChoice, asked: Asked
) -> tuple[Provenance, dict[str, list[int] | None]]:
    """Return the provenance of an aggregate's records, and the copies of the wanted topics."""
    from topology.records.provenance import Provenance, check_datacenters

    deployment = choice.known()
    datacenters = {each.name: each.datacenter for each in deployment.clusters}
    check_datacenters(asked.datacenters, datacenters)
    provenance = Provenance(client, deployment, choice.find().name)
    await provenance.refresh()
    copies: dict[str, list[int] | None] = {}
    for topic, partitions in asked.topics.items():
        copies.update(dict.fromkeys(provenance.copies_of(topic), partitions))
    return provenance, copies


class _Printer:
    """Prints records one by one, in the format that was asked for."""

    def __init__(self, output: Format, asked: Asked, provenance: Provenance | None) -> None:
        from topology.records.shown_record import GLOBAL_LINE, LINE

        self._output = output
        self._asked = asked
        self._provenance = provenance
        line = LINE if provenance is None else GLOBAL_LINE
        self._template = line + "\n" if asked.template is None else asked.template
        if not self._template.endswith("\n"):
            self._template += "\n"

    async def show(self, record: ReadRecord) -> None:
        from topology.records.shown_record import by_template, record_document

        origin = None
        if self._provenance is not None:
            at = (record.topic, record.partition, record.offset)
            if self._provenance.is_beyond(*at):
                await self._provenance.refresh()
            origin = self._provenance.origin(*at)
            if self._asked.datacenters and origin.datacenter not in self._asked.datacenters:
                return
        document = record_document(record, self._asked.encoding, origin)
        if self._output is Format.human:
            text = by_template(self._template, document)
        else:
            text = _for_programs(self._output, document)
        sys.stdout.write(text)
        sys.stdout.flush()


def _for_programs(output: Format, document: dict[str, Any]) -> str:
    if output is Format.json:
        return json.dumps(document) + "\n"
    import io

    from ruamel.yaml import YAML

    text = io.StringIO()
    yaml = YAML()
    yaml.explicit_start = True
    yaml.dump(document, text)
    return text.getvalue()
