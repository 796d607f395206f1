"""The routes: each parses, calls one service, and renders."""
