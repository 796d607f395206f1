"""A store of each engine, as for the store's own tests."""

from tests.store.conftest import key, sqlite_url, store, store_url

__all__ = ["key", "sqlite_url", "store", "store_url"]
