"""The HTTP server: routes over the one store, the change feed, and the locks on every door."""
