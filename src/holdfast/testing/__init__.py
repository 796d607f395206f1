"""Suites with which others test what they build on Holdfast."""
