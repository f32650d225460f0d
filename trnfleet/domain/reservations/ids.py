"""Ids as EC2 writes them."""

from __future__ import annotations

from typing import Protocol


class Token(Protocol):
    """A source of repeatable randomness for ids and failing payments."""

    def __call__(self, kind: str, /, *parts: object) -> str:
        """Return 16 hexadecimal digits (64 uniform bits) for a kind of token and some parts."""


def id_of(prefix: str, token: Token, *parts: object) -> str:
    """Return the id for some parts: a prefix and 17 hexadecimal digits."""
    return f"{prefix}-0{token(prefix, parts)}"
