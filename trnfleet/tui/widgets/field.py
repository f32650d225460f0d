"""A field of one line, alone on its line, with an immediate answer to Enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

if TYPE_CHECKING:
    from collections.abc import Callable


class Field(Input):
    """A field that passes its text on during Enter, not by a message.

    Keys of the same burst are read before any message; they would go into a field about to close.
    """

    def __init__(
        self,
        submit: Callable[[str], None],
        *,
        max_length: int,
        placeholder: str = "",
    ) -> None:
        """Make a field.

        Args:
            submit: Receives the text, stripped.
            max_length: Most characters.
            placeholder: Text of the empty field.
        """
        super().__init__(
            placeholder=placeholder,
            max_length=max_length,
            select_on_focus=False,
            compact=True,
        )
        self._submit = submit

    async def action_submit(self) -> None:
        self._submit(self.value.strip())
