"""The page at `/`: links, their audits and probes, and merged topics. Pure.

It is plain HTML without scripts and without external resources.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

Document = dict[str, Any]

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%;margin-bottom:2rem}"
    "th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8886}"
    "td.number,th.number{text-align:right}"
)
UNKNOWN: Final = "-"
_PROBE_COUNTS: Final = ("sent", "received", "lost", "doubled", "out_of_order", "altered")


def render_page(
    links: Document,
    audits: list[Document],
    probes: Document,
    topics: Document | None,
    aggregate: str,
) -> str:
    """Return the whole page from the documents of /api/v1/links, audit, probe and topics."""
    title = f"Aggregate {aggregate}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>"
        f"<h2>Links</h2>{_links(links)}"
        f"<h2>Audit</h2>{_audit(audits)}"
        f"<h2>Probes</h2>{_probes(probes)}"
        f"<h2>Merged topics</h2>{_topics(topics)}"
        '<p>As JSON: <a href="/api/v1/links">links</a>, '
        '<a href="/api/v1/audit">audit</a>, <a href="/api/v1/probe">probes</a>, '
        '<a href="/api/v1/topics">topics</a>; '
        '<a href="/metrics">metrics</a>, <a href="/readyz?verbose=1">readiness</a>.</p>'
        "</body></html>\n"
    )


def _links(document: Document) -> str:
    rows = [
        [
            link["name"],
            link["datacenter"],
            link["lag"]["records"],
            link["lag"]["seconds"],
            link["map"]["state"],
            link["map"]["partitions"],
            link["map"]["lag_records"],
            link["map"]["problem"] or "",
        ]
        for link in document["links"]
    ]
    heads = [
        "Link",
        "Datacenter",
        "Records behind",
        "Seconds behind",
        "Map",
        "Partitions mapped",
        "Map records to read",
        "Problem",
    ]
    return (
        _table(heads, rows, numbers={2, 3, 5, 6})
        if rows
        else "<p>No link feeds this aggregate.</p>"
    )


def _audit(documents: list[Document]) -> str:
    rows = [
        [
            link["link"],
            "well" if link["is_well"] else "wrong" if link["problem"] is None else "unknown",
            link["records"].get("COMPLETE", 0),
            link["records"].get("UNVERIFIED", 0),
            link["age_seconds"],
            link["findings"],
            _first_finding(link) or link["problem"] or "",
        ]
        for link in documents
    ]
    heads = ["Link", "State", "Complete", "Unverified", "Age s", "Findings", "First finding"]
    return _table(heads, rows, numbers={2, 3, 4, 5}) if rows else "<p>No link is audited.</p>"


def _first_finding(link: Document) -> str | None:
    for part in link["partitions"]:
        for each in part["findings"]:
            return (
                f"{each['verdict']} at {part['target_topic']}-{part['partition']}, offset "
                f"{each['target_from']}: {each['detail']}"
            )
    return None


def _probes(document: Document) -> str:
    rows = [
        [
            probe["link"],
            probe["state"],
            *(probe[key] for key in _PROBE_COUNTS),
            probe["latency_ms"]["p50"],
            probe["latency_ms"]["p99"],
            probe["last_arrival_age_seconds"],
            probe["reason"] or "",
        ]
        for probe in document["links"]
        if "sent" in probe
    ]
    heads = [
        "Link",
        "State",
        *(key.replace("_", " ").capitalize() for key in _PROBE_COUNTS),
        "p50 ms",
        "p99 ms",
        "Last arrival s ago",
        "Reason",
    ]
    numbers = set(range(2, len(heads) - 1))
    return _table(heads, rows, numbers=numbers) if rows else "<p>No link is probed.</p>"


def _topics(document: Document | None) -> str:
    if document is None:
        return "<p>The topics of the aggregate are not known yet.</p>"
    rows = [
        [topic["name"], part["datacenter"], part["topic"], part["partitions"]]
        for topic in document["topics"]
        for part in topic["parts"]
    ]
    if not rows:
        return "<p>No topic has been mirrored yet.</p>"
    return _table(["Topic", "Datacenter", "On the aggregate", "Partitions"], rows, numbers={3})


def _table(heads: list[str], rows: list[list[object]], *, numbers: set[int]) -> str:
    def cells(tag: str, row: list[Any]) -> str:
        return "".join(
            f"<{tag}{' class=number' if at in numbers else ''}>"
            f"{escape(UNKNOWN if value is None else str(value))}</{tag}>"
            for at, value in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"
