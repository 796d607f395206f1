"""Options that several commands share."""

import pytest

from holdfast.cli.options import without_password


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ada:s3cret@db/holdfast", "postgresql://ada:…@db/holdfast"),
        ("postgresql://ada:p@ss@db/holdfast", "postgresql://ada:…@db/holdfast"),
        ("http://a:b@x or http://c:d@y", "http://a:…@x or http://c:…@y"),
        ("postgresql://ada@db/holdfast", "postgresql://ada@db/holdfast"),
        ("sqlite:////srv/holdfast.db", "sqlite:////srv/holdfast.db"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert without_password(address) == shown
