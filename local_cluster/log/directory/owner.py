"""The owner of a log directory: `.lock` names one process, meta.properties one broker."""

from __future__ import annotations

from local_cluster.log.disk.disk_work import DirectoryNotOursError, LogDirectoryError
from local_cluster.log.disk.files import Files, LogFile
from local_cluster.log.state.checkpoints import (
    LOCK,
    META_PROPERTIES,
    CheckpointCorruptError,
    decode_meta_properties,
    encode_meta_properties,
)


class DirectoryOwner:
    """The ownership of the directory at `path`, claimed by one broker."""

    def __init__(self, files: Files, path: str, broker_id: int) -> None:
        self._files = files
        self._path = path
        self._broker_id = broker_id
        self._lock: LogFile | None = None

    def lock(self) -> None:
        """Take the lock of the directory.

        Raises DirectoryNotOursError where another process holds it, OSError.
        """
        try:
            self._lock = self._files.lock(f"{self._path}/{LOCK}")
        except BlockingIOError as error:
            raise DirectoryNotOursError(f"{self._path} is in use by another process") from error

    def unlock(self) -> None:
        """Release the lock, if it was taken."""
        if self._lock is not None:
            self._lock.close()

    def claim(self, cluster_id: str | None) -> None:
        """Bind the directory to the broker and the cluster, if it has no owner yet. Blocks.

        Where `cluster_id` is None, it is not known yet: then only the broker is compared.
        Raises DirectoryNotOursError where it is another cluster's or broker's, LogDirectoryError
        where the disk fails.
        """
        try:
            owner = self._read()
            if owner is None:
                if cluster_id is not None:
                    content = encode_meta_properties(self._broker_id, cluster_id)
                    path = f"{self._path}/{META_PROPERTIES}"
                    self._files.replace(path, content, durable=True)
                return
        except (OSError, CheckpointCorruptError) as error:
            raise LogDirectoryError(f"{self._path}: {error}") from error
        wanted = self._broker_id, cluster_id or owner[1]
        if owner != wanted:
            raise DirectoryNotOursError(
                f"{self._path} belongs to broker {owner[0]} of cluster {owner[1]},"
                f" not to broker {wanted[0]} of cluster {wanted[1]}"
            )

    def _read(self) -> tuple[int, str] | None:
        """Return (broker id, cluster id); None if there is no such file."""
        path = f"{self._path}/{META_PROPERTIES}"
        if not self._files.exists(path):
            return None
        return decode_meta_properties(self._files.read_bytes(path))
