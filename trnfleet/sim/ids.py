"""Ids of simulated hardware, as real hardware has them: EC2 instance ids, serial numbers and boot ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.sim.rng import digest

if TYPE_CHECKING:
    from trnfleet.sim.rng import Rng


def ec2_id(rng: Rng, path: str, generation: int = 0) -> str:
    """Return the EC2 id of an instance that was replaced `generation` times: `i-0` and 16 hexadecimal digits."""
    return "i-0" + (rng.token("ec2", path, generation) if generation else rng.token("ec2", path))


def serial_number(rng: Rng, chip: str, generation: int = 0) -> str:
    """Return the serial number of a chip that was replaced `generation` times: 16 hexadecimal digits."""
    return rng.token("serial", chip, generation)


def boot_of_seed(rng: Rng) -> str:
    """Return the boot id of a run that repeats bit by bit: 16 hexadecimal digits."""
    return rng.token("boot")


def boot_after(boot: str, path: str, boots: int) -> str:
    """Return the boot id of an instance that has booted `boots` times since the simulator began with id `boot`."""
    return digest(boot, path, boots) if boots else boot
