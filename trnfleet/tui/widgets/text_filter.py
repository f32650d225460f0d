"""The one filter by typed text: a part of a text, or with `!` in front everything without that part; case does not matter."""

from __future__ import annotations

from typing import NamedTuple


class TextFilter(NamedTuple):
    """What is left of texts; everything for an empty one."""

    part: str = ""
    """Lower case."""
    is_inverse: bool = False
    """Whether texts with the part go, and all others stay."""

    @staticmethod
    def of(pattern: str) -> TextFilter:
        """Return the filter that was typed."""
        text = pattern.lower()
        return TextFilter(text.removeprefix("!"), text.startswith("!"))

    @property
    def is_empty(self) -> bool:
        """Whether everything is left."""
        return not self.part

    def keeps(self, *texts: str) -> bool:
        """Return whether something of which these are the texts is left."""
        return not self.part or any(self.part in text.lower() for text in texts) is not self.is_inverse

    def keeps_lower(self, text: str) -> bool:
        """Return whether something of which this is the whole text is left; it is in lower case already."""
        return not self.part or (self.part in text) is not self.is_inverse
