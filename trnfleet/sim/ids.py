"""Names that real hardware would have: EC2 instance ids and serial numbers, made up from the seed and the address."""

from __future__ import annotations

import hashlib


def ec2_id(seed: int, path: str, generation: int = 0) -> str:
    """Return a plausible EC2 instance id that follows from seed, path and how often the instance was replaced.

    It is `i-0` and 16 hexadecimal digits.
    """
    which = f"{path}:{generation}" if generation else path
    return "i-0" + hashlib.sha256(f"ec2:{seed}:{which}".encode()).hexdigest()[:16]


def serial_number(seed: int, chip: str, generation: int = 0) -> str:
    """Return a chip's serial number: 16 hexadecimal digits that follow from seed, address and replacements."""
    return hashlib.sha256(f"serial:{seed}:{chip}:{generation}".encode()).hexdigest()[:16]
