"""Opens a catalogue: a directory with SQLite, or the URI of an Iceberg REST catalogue.

Other properties, such as credentials, come from pyiceberg's configuration of the catalogue
`heliograph`: its file, or variables PYICEBERG_CATALOG__HELIOGRAPH__NAME. So no command line has a
secret.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import RESTError
from sqlalchemy.exc import SQLAlchemyError

from spark_global.iceberg.listing import (
    NAME,
    SQLITE_FILE,
    catalogue_file,
    catalogue_folder,
    is_server,
)

UNREACHABLE: Final = (RESTError, SQLAlchemyError, OSError)
"""What a catalogue raises that does not answer, or not in time. The outcome is unknown."""


def open_catalogue(text: str, *, create: bool = False) -> Catalog:
    """Open a catalogue. Raises `UNREACHABLE`, also if there is none and `create` is false."""
    if is_server(text):
        return load_catalog(NAME, type="rest", uri=text)
    directory = catalogue_folder(text)
    if create:
        directory.mkdir(parents=True, exist_ok=True)
    else:
        catalogue_file(text)
    return load_catalog(
        NAME,
        type="sql",
        uri=f"sqlite:///{directory / SQLITE_FILE}",
        warehouse=directory.as_uri(),
    )
