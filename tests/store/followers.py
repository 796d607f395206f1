"""A follower of a session, as every client is one: it replaces rows by id and lengthens what streams."""

from contextlib import aclosing

from holdfast import Changes, Compaction, HistoryOptions, Message, Session, Store, Turn
from holdfast.model.session import SessionRef

Row = Message | Turn | Compaction


class Follower:
    def __init__(self) -> None:
        self.rev = 0
        self.session: Session | None = None
        self.rows: dict[str, Row] = {}
        self.text_received = 0

    def apply(self, changes: Changes) -> None:
        assert changes.rev > self.rev
        self.rev = changes.rev
        self.session = changes.session
        changed: list[Row] = [*changes.messages, *changes.turns, *changes.compactions]
        self.rows |= {str(row.id): row for row in changed}
        for delta in changes.deltas:
            message = self.rows[delta.message_id]
            assert isinstance(message, Message)
            self.rows[delta.message_id] = delta.applied_to(message)
        self.text_received += sum(len(message.text) for message in changes.messages)
        self.text_received += sum(len(delta.text) for delta in changes.deltas)

    def has_heard(self, text: str) -> bool:
        return any(isinstance(row, Message) and row.text == text for row in self.rows.values())

    async def follow(self, store: Store, ref: SessionRef, *, until: int) -> None:
        """Follow from where it is until the session's revision `until` is reached."""
        async with aclosing(store.follow(ref, self.rev)) as items:
            while self.rev < until:
                self.apply(await anext(items))


async def state(store: Store, ref: SessionRef) -> dict[str, Row]:
    """What somebody reads who reads the session afresh."""
    rows: list[Row] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await store.get_history(ref, HistoryOptions(after=cursor, limit=500))
        rows += page.messages
        cursor = page.newer
    rows += [*await store.list_turns(ref, limit=10_000), *await store.list_compactions(ref)]
    return {str(row.id): row for row in rows}
