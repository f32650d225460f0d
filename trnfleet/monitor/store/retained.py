"""The newest message of every topic of one class, as a broker retains them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M")


class RetainedCollection(Generic[M]):
    """Messages by the name in their topic's path.

    Subclasses derive more from them.
    """

    def __init__(self, key_of: Callable[[M], str]) -> None:
        """Begin empty.

        Args:
            key_of: Returns a message's name.
        """
        self.by_key: dict[str, M] = {}
        self.revision = 0
        """Goes up with every change."""
        self._key_of = key_of

    def __len__(self) -> int:
        return len(self.by_key)

    def __contains__(self, key: object) -> bool:
        return key in self.by_key

    def put(self, message: M) -> None:
        """Replace the message of the same name."""
        key = self._key_of(message)
        if self.by_key.get(key) != message:
            self.by_key[key] = message
            self.revision += 1

    def remove(self, key: str) -> None:
        """Remove a cleared message.

        A missing one is ignored.
        """
        if self.by_key.pop(key, None) is not None:
            self.revision += 1
