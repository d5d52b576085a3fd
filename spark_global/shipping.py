"""The archive of this package for Spark's executors: plain Python sources, no build.

Executors on other hosts import the modules that run in tasks by name. The archive has every module
of `spark_global`, and what these import of the other packages. It has no compiled module, so it
fits every platform and every Python that runs the sources.

Not here: packages of other projects (`EXECUTOR_PACKAGES`), because most hold machine code.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGE_ROOT: Final = Path(__file__).parent.parent
"""Directory or archive that this package was imported from."""
PACKAGES: Final = ("local_cluster", "mirror_maker", "spark_global")
ARCHIVE_NAME: Final = "heliograph.zip"
EXECUTOR_PACKAGES: Final = (
    "cramjam",
    "crc32c",
    "kio",
    "mmh3",
    "numpy",
    "pyarrow",
    "pydantic",
    "tenacity",
)
"""Distributions that the Python of an executor needs, besides `pyspark`."""
MORE_EXECUTOR_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "--to iceberg": ("pyiceberg",),
    "decoded values": ("confluent-kafka[schemaregistry]", "fastavro", "orjson", "protobuf"),
    "spark serve": ("confluent-kafka", "pandas"),
    "windows as SQL over streams": ("pandas",),
}
"""What it needs beside these, by what the query does."""
_MADE_AT: Final = (1980, 1, 1, 0, 0, 0)
"""Time of every entry, so that equal sources give equal archives."""


class ArchiveError(RuntimeError):
    """There are no sources to pack."""


def write_archive(path: Path, root: Path = PACKAGE_ROOT) -> int:
    """Write the archive; return the number of its modules. Raises ArchiveError and OSError."""
    modules = shipped_modules(root)
    if not modules:
        raise ArchiveError(f"{root} is no directory with the sources of {', '.join(PACKAGES)}")
    partial = path.with_name(path.name + ".partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for _, file in sorted(modules.items()):
                entry = zipfile.ZipInfo(file.relative_to(root).as_posix(), _MADE_AT)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return len(modules)


def shipped_modules(root: Path = PACKAGE_ROOT) -> dict[str, Path]:
    """Return the source file of every module of the archive, by the module's name."""
    found: dict[str, Path] = {}
    waiting = [_module_name(file, root) for file in (root / PACKAGES[-1]).rglob("*.py")]
    while waiting:
        name = waiting.pop()
        file = None if name in found else _source(name, root)
        if file is None:
            continue
        found[name] = file
        package, _, _ = name.rpartition(".")
        waiting += [package, *_imports(file)]
    return found


def _module_name(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _source(name: str, root: Path) -> Path | None:
    """Return the source file of a module of ours, or None for any other name."""
    if name.partition(".")[0] not in PACKAGES:
        return None
    plain = root.joinpath(*name.split("."))
    for file in (plain / "__init__.py", plain.with_name(plain.name + ".py")):
        if file.is_file():
            return file
    return None


def _imports(file: Path) -> Iterator[str]:
    """Yield every name that a source imports; some name no module."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{file} has a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
