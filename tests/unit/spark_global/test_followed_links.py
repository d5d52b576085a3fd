"""The links of a running stream come from a file that changes."""

from __future__ import annotations

from pathlib import Path

from spark_global.followed_links import FollowedLinks, write_links
from spark_global.links import MirrorLink


def link(source: str, datacenter: str) -> MirrorLink:
    return MirrorLink(source=source, datacenter=datacenter, name=f"{source}-nyc")


def test_links_of_the_file_replace_those_of_their_name(tmp_path: Path) -> None:
    file = tmp_path / "links.json"
    given = (link("jfk", "JFK"), link("lga", "LGA"))
    links = FollowedLinks(given, str(file))
    assert links.now() == given, "there is no file yet"
    write_links(file, [link("lga", "La Guardia"), link("ewr", "Newark")])
    wanted = (link("lga", "La Guardia"), link("ewr", "Newark"), link("jfk", "JFK"))
    assert links.now() == wanted
    file.write_text("[")
    assert links.now() == wanted
    write_links(file, [])
    assert links.now() == wanted, "a link that leaves the file stays"
    assert FollowedLinks(given, None).now() == given
