"""A snapshot in which files replace others. Shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Transaction

if TYPE_CHECKING:
    from pyiceberg.table.update.snapshot import _OverwriteFiles


@contextmanager
def replace_files(transaction: Transaction, says: dict[str, str]) -> Iterator[_OverwriteFiles]:
    """Stage one snapshot that deletes and appends the files that the caller names.

    Threads of pyiceberg 0.12 look for the deleted files, and share one evaluator per partition
    spec. It keeps the manifest that it judges. So a thread may judge that of another, and a file
    of the table is "missing". Here each manifest has an evaluator of its own, as in its scans.
    """
    with transaction.update_snapshot(snapshot_properties=says).overwrite() as snapshot:
        build = snapshot._build_manifest_evaluator

        def evaluator_per_manifest(spec_id: int) -> Callable[[ManifestFile], bool]:
            return lambda manifest: build(spec_id)(manifest)

        setattr(snapshot, build.__name__, evaluator_per_manifest)
        yield snapshot
