"""Small files on any storage that Spark knows, by its Hadoop file system. Shell, on the driver.

A file appears whole or not at all: it is written under another name and renamed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class SmallFiles:
    """The files of one folder."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        context: Any = session.sparkContext
        self._jvm: Any = context._jvm
        self._folder: Any = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._system: Any = self._folder.getFileSystem(context._jsc.hadoopConfiguration())

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        at = self._path(name)
        if not self._system.exists(at):
            return None
        stream = self._system.open(at)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, content: bytes) -> None:
        """Write a file that does not exist yet."""
        unfinished, at = self._path(f"_{name}.unfinished"), self._path(name)
        stream = self._system.create(unfinished, True)
        try:
            stream.write(content)
        finally:
            stream.close()
        if not self._system.rename(unfinished, at):
            raise OSError(f"{at.toString()} cannot be written: it exists already")

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        self._system.delete(self._path(name), False)

    def delete_folder(self, name: str) -> None:
        """Delete a folder with all that is in it, if it exists."""
        self._system.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)
