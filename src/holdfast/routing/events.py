"""What a bot is told while one of its messages is answered. Everything told is stored already."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.message import Message
from holdfast.model.session import Session
from holdfast.model.turn import Turn
from holdfast.routing.bindings import Decision


class TurnStarted(msgspec.Struct, frozen=True):
    decision: Decision
    session: Session
    turn: Turn


class TextAdded(msgspec.Struct, frozen=True):
    """More of the answer."""

    text: str


class MessageEnded(msgspec.Struct, frozen=True):
    """Something the agent said or did, as a whole; its text was told piece by piece before."""

    message: Message


class TurnEnded(msgspec.Struct, frozen=True):
    """Completed or failed; a delivery that was repeated is told only this."""

    turn: Turn


class TurnJoined(msgspec.Struct, frozen=True):
    """The message went into the turn that runs, and is answered there."""

    message: Message


Outgoing: TypeAlias = TurnStarted | TextAdded | MessageEnded | TurnEnded | TurnJoined
