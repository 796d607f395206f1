"""Messages as channels tell of them."""

from typing import Any

from holdfast.routing.incoming import Incoming, Peer


def said(peer: str, text: str = "hello", *, channel: str = "slack", **fields: Any) -> Incoming:
    parent = fields.pop("parent", None)
    return Incoming(
        channel=channel,
        peer=Peer.parse(peer),
        text=text,
        parent=Peer.parse(parent) if parent else None,
        **fields,
    )
