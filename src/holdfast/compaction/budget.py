"""How many tokens a view may take."""

from __future__ import annotations

import msgspec

from holdfast.errors import InvalidInput


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    window: int
    """What the model takes in."""
    reserve: int = 0
    """What is left free for its answer."""
    overhead: int = 0
    """What is sent besides the view: instructions and the definitions of tools."""
    target: int | None = None
    """How small a view should become once it is shortened, so that it is not shortened again at once."""

    def __post_init__(self) -> None:
        if self.room <= 0:
            raise InvalidInput(
                f"A window of {self.window} tokens has no room for a view beside {self.reserve} in reserve "
                f"and {self.overhead} of instructions and tools."
            )

    @property
    def room(self) -> int:
        """The most that a view may take."""
        return self.window - self.reserve - self.overhead

    @property
    def aim(self) -> int:
        return self.room if self.target is None else min(self.target, self.room)

    def calibrated(self, ratio: float) -> Budget:
        """The budget in tokens as we count them, where the model counts `ratio` times as many."""
        room = max(1, int(self.room / ratio))
        return Budget(window=room, target=None if self.target is None else max(1, int(self.target / ratio)))
