"""Hook of MkDocs: the READMEs of the packages are pages of the site too.

A README links to files of the repository, and documents link to READMEs. In the site a link to a
README becomes a link to its page, and a link to any other file outside of `docs/` becomes its name.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    *("local_cluster", "mirror_maker", "aggregator", "spark_global", "topology"),
    *("configs", "tests"),
)
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def repository_pages() -> dict[Path, str]:
    """Return the pages that lie outside of `docs/`: path in the repository to path in the site."""
    readmes = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("README.md"))]
    pages = {path: f"packages/{path.relative_to(ROOT)}" for path in readmes}
    return pages | {ROOT / name: f"project/{name}" for name in PAGES if (ROOT / name).exists()}


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pages that lie outside of `docs/`."""
    for path, uri in repository_pages().items():
        files.append(File.generated(config, uri, content=path.read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links between documents of the repository into links between pages."""
    pages = repository_pages()
    here = {uri: path for path, uri in pages.items()}.get(page.file.src_uri)
    source = here if here is not None else ROOT / "docs" / page.file.src_uri

    def turned(link: re.Match[str]) -> str:
        target, _, anchor = link["target"].partition("#")
        if re.match(r"[a-z]+:", link["target"]) or not target:
            return link[0]
        there = (source.parent / target).resolve()
        if there.is_dir() and (there / "README.md").exists():
            there /= "README.md"
        uri = pages.get(there)
        if uri is None and there.is_relative_to(ROOT / "docs"):
            uri = str(there.relative_to(ROOT / "docs"))
        if uri is None:
            return link["text"]
        start = Path(page.file.src_uri).parent
        return f"[{link['text']}]({os.path.relpath(uri, start)}{'#' + anchor if anchor else ''})"

    return LINK.sub(turned, markdown)


SHIM = Path(__file__).with_name("iframe_worker_shim.js")
SHIM_ADDRESS = re.compile(r"https://[\w.]+/iframe-worker/shim")


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Have the page load nothing from elsewhere: search in local files needs one small script."""
    start = Path(page.file.dest_uri).parent
    return SHIM_ADDRESS.sub(os.path.relpath(f"assets/{SHIM.name}", start), output)


def on_post_build(config: Any, **_: Any) -> None:
    """Put the script beside the theme's."""
    site = Path(config["site_dir"])
    shutil.copy(SHIM, site / "assets" / SHIM.name)
    (site / "404.html").unlink(missing_ok=True)
