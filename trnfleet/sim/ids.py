"""Ids of simulated hardware, as real hardware has them: EC2 instance ids and serial numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.domain.reservations.ids import Token


def ec2_id(token: Token, path: str, generation: int = 0) -> str:
    """Return the EC2 id of an instance replaced `generation` times.

    The form is `i-0` and 16 hexadecimal digits.
    """
    return "i-0" + (token("ec2", path, generation) if generation else token("ec2", path))


def serial_number(token: Token, chip: str, generation: int = 0) -> str:
    """Return the serial number of a chip replaced `generation` times: 16 hexadecimal digits."""
    return token("serial", chip, generation)
