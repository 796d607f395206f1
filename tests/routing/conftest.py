"""A store of each engine, and a command line in an empty directory."""

from tests.cli.conftest import cli
from tests.store.conftest import sqlite_url, store, store_url

__all__ = ["cli", "sqlite_url", "store", "store_url"]
