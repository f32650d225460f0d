"""Ids as EC2 writes them, which follow from a seed."""

from __future__ import annotations

import hashlib


def id_of(prefix: str, seed: int, *what: object) -> str:
    """Return the id of what `what` tells apart: a prefix and 17 hexadecimal digits."""
    digest = hashlib.sha256(f"{prefix}:{seed}:{what}".encode()).hexdigest()
    return f"{prefix}-0{digest[:16]}"
