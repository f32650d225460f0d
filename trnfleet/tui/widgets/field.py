"""A field of one line that is alone on its line: Enter is answered at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

if TYPE_CHECKING:
    from collections.abc import Callable


class Field(Input):
    """A field that hands on what was typed within the action of Enter, not by a message.

    Keys that were sent in the same burst are read before any message, and would be written into a field that is about to close.
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
            submit: Takes the text, without blanks at its ends.
            max_length: Characters, at most.
            placeholder: What stands there while it is empty.
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
