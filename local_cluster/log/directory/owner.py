"""Whose a log directory is: meta.properties names one broker of one cluster."""

from __future__ import annotations

from local_cluster.log.disk.disk_work import DirectoryNotOursError, LogDirectoryError
from local_cluster.log.disk.files import Files
from local_cluster.log.state import checkpoints as c


class DirectoryOwner:
    """The owner of the directory at `path`, as a broker sees it that wants to be that."""

    def __init__(self, files: Files, path: str, broker_id: int) -> None:
        self._files = files
        self._path = path
        self._broker_id = broker_id

    def claim(self, cluster_id: str | None) -> None:
        """Make this the directory of a cluster, if it is nobody's yet. Blocks.

        None where the cluster is not known yet: then only the broker is compared.
        Raises DirectoryNotOursError where it is another cluster's or broker's, LogDirectoryError
        where the disk fails.
        """
        try:
            owner = self._read()
            if owner is None:
                if cluster_id is not None:
                    content = c.encode_meta_properties(self._broker_id, cluster_id)
                    path = f"{self._path}/{c.META_PROPERTIES}"
                    self._files.replace(path, content, durable=True)
                return
        except (OSError, c.CheckpointCorruptError) as error:
            raise LogDirectoryError(f"{self._path}: {error}") from error
        wanted = self._broker_id, cluster_id or owner[1]
        if owner != wanted:
            raise DirectoryNotOursError(
                f"{self._path} belongs to broker {owner[0]} of cluster {owner[1]},"
                f" not to broker {wanted[0]} of cluster {wanted[1]}"
            )

    def _read(self) -> tuple[int, str] | None:
        """(broker id, cluster id), None if there is no such file."""
        path = f"{self._path}/{c.META_PROPERTIES}"
        if not self._files.exists(path):
            return None
        return c.decode_meta_properties(self._files.read_bytes(path))
