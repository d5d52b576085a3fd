"""An Iceberg REST catalogue over SQLite that dies in the middle of a commit, if told to.

python -m tests.support.rest_catalogue DIRECTORY PORT

A file `DIRECTORY/fault` says where the next commit kills the process: `before` the commit is
applied, or `after` it, so that the answer is lost. The process deletes the file first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table

from spark_global.iceberg.catalogues import open_catalogue
from tests.support.quiet_ports import quiet_port

FAULT: Final = "fault"
START_SECONDS_MAX: Final = 600.0
_TABLE: Final = re.compile(r"/v1/namespaces/([^/]+)/tables/([^/]+)$")
_TABLES: Final = re.compile(r"/v1/namespaces/([^/]+)/tables$")
_NAMESPACE: Final = re.compile(r"/v1/namespaces/([^/]+)$")
_STATUS: Final[dict[type[Exception], int]] = {
    CommitFailedException: 409,
    NamespaceAlreadyExistsError: 409,
    NoSuchTableError: 404,
    TableAlreadyExistsError: 409,
}


class RestCatalogue:
    """The process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = quiet_port()
        self.deaths = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.support.rest_catalogue"]
        self._process = subprocess.Popen([*command, str(self.directory), str(self.port)])
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                urllib.request.urlopen(f"{self.uri}/v1/config", timeout=5).close()
                return
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)

    def die_at_next_commit(self, place: str) -> None:
        """`before` or `after` it is applied."""
        (self.directory / FAULT).write_text(place)

    @property
    def is_dead(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @contextlib.contextmanager
    def restarted_whenever_dead(self) -> Iterator[None]:
        """Start the process again each time it dies, within the block."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(0.02):
                if self.is_dead:
                    self.deaths += 1
                    self.start()

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def serve(directory: Path, port: int) -> None:
    """Serve until the process is killed."""
    catalogue = open_catalogue(str(directory), create=True)
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(_get)

        def do_HEAD(self) -> None:
            self._answer(_get)

        def do_POST(self) -> None:
            self._answer(lambda found, path, body: _post(found, path, body, directory))

        def _answer(self, ask: Callable[[Catalog, str, bytes], Any]) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                with one_at_a_time:
                    status, document = 200, ask(catalogue, self.path.partition("?")[0], body)
            except tuple(_STATUS) as error:
                status = _STATUS[type(error)]
                document = {
                    "error": {"message": str(error), "type": type(error).__name__, "code": status}
                }
            answer = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def _get(catalogue: Catalog, path: str, body: bytes) -> Any:
    if path == "/v1/config":
        return {"defaults": {}, "overrides": {}}
    if path == "/v1/namespaces":
        return {"namespaces": [list(each) for each in catalogue.list_namespaces()]}
    if found := _TABLES.match(path):
        tables = catalogue.list_tables(found[1])
        return {
            "identifiers": [{"namespace": list(each[:-1]), "name": each[-1]} for each in tables]
        }
    if found := _TABLE.match(path):
        return _table(catalogue.load_table((found[1], found[2])))
    found = _NAMESPACE.match(path)
    assert found, path
    return {"namespace": [found[1]], "properties": {}}


def _post(catalogue: Catalog, path: str, body: bytes, directory: Path) -> Any:
    if path == "/v1/namespaces":
        name = tuple(json.loads(body)["namespace"])
        catalogue.create_namespace(name)
        return {"namespace": list(name), "properties": {}}
    if found := _TABLES.match(path):
        new = CreateTableRequest.model_validate({"location": None} | json.loads(body))
        created = catalogue.create_table(
            (found[1], new.name),
            schema=new.table_schema,
            partition_spec=new.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            properties=new.properties,
        )
        return _table(created)
    found = _TABLE.match(path)
    assert found, path
    request = CommitTableRequest.model_validate_json(body)
    fault = directory / FAULT
    place = fault.read_text() if fault.exists() else ""
    if place == "before":
        fault.unlink()
        os._exit(9)
    table = catalogue.load_table((found[1], found[2]))
    done = catalogue.commit_table(table, request.requirements, request.updates)
    if place == "after":  # a commit that was refused has not happened, so the next one is meant
        fault.unlink()
        os._exit(9)
    return json.loads(done.model_dump_json(by_alias=True))


def _table(table: Table) -> Any:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json(by_alias=True)),
        "config": {},
    }


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
