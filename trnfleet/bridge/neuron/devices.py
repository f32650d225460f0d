"""Devices listed by `neuron-ls`, and their chips of the instance type.

Known is the array of `-j`. Assumed of `--output-format json`: an object with that array in it.

A container with some of a host's devices sees them numbered from 0, so that device 0 need not be
chip 0. Their PCI addresses and their neighbours remain the host's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.bridge.neuron.fields import parse_json, text_of
from trnfleet.bridge.neuron.stream import MOST_DOCUMENT_BYTES
from trnfleet.errors import ConfigError, WireError
from trnfleet.wire.ndjson import TextFile

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.domain.hardware.catalogue import InstanceType

MOST_DEVICES = 256

_BDF = {
    ("trainium2", 16): (
        "cc",
        "b5",
        "b6",
        "cb",
        "6f",
        "58",
        "59",
        "6e",
        "9b",
        "84",
        "85",
        "9a",
        "f8",
        "e1",
        "e2",
        "f7",
    ),
}
"""Bus of the PCI address of each chip, by chip type and number of chips. Published: the sample of
neuron-ls in the Neuron SDK 2.32, and seen on a trn2.48xlarge."""


class Device(NamedTuple):
    """One device of a host or container, as neuron-ls numbers it."""

    number: int
    bdf: str
    """PCI address with its domain, in lower case; empty if unknown."""
    neighbours: frozenset[int]
    """Chips of the host that NeuronLinks lead to."""
    cores: tuple[int, ...]
    """Its logical cores as the host or container numbers them."""


class DeviceList(NamedTuple):
    """All devices that neuron-ls lists."""

    devices: tuple[Device, ...]
    instance_type: str = ""
    """Empty if unknown, as in older releases."""
    instance_id: str = ""

    @property
    def cores(self) -> dict[int, tuple[int, ...]]:
        """Logical cores of each device."""
        return {device.number: device.cores for device in self.devices}

    def place(self, kind: InstanceType) -> dict[int, int]:
        """Return the chip of each device: by its PCI address, else by its neighbours.

        Device numbers are used only without both, and only if all chips are listed.

        Raises:
            ConfigError: a device cannot be placed, or two are at the same place.
        """
        if kind.chips == 1 and len(self.devices) == 1:
            return {self.devices[0].number: 0}
        numbers = [device.number for device in self.devices]
        placed = {device.number: _chip_of(device, kind) for device in self.devices}
        if None in placed.values() and numbers == list(range(kind.chips)):
            return dict(zip(numbers, numbers, strict=True))
        result: dict[int, int] = {}
        for device in self.devices:
            chip = placed[device.number]
            if chip is None:
                raise ConfigError(
                    f"neuron-ls: device {device.number} at {device.bdf or 'no PCI address'}: neither"  # noqa: E501
                    f" its address nor its neighbours {sorted(device.neighbours)} are those of a chip"  # noqa: E501
                    f" of a {kind.name}"
                )
            if chip in result.values():
                raise ConfigError(f"neuron-ls: two devices are chip {chip} of a {kind.name}")
            result[device.number] = chip
        return result


def read_device_list(path: Path) -> DeviceList:
    """Read a file of `neuron-ls -j`.

    Raises:
        ConfigError: it cannot be read, or is something else; the message names the file.
    """
    try:
        with TextFile.open(path) as stream:
            text = stream.read(MOST_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    try:
        return parse_device_list(text)
    except WireError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_device_list(text: bytes) -> DeviceList:
    """Parse the output of `neuron-ls -j` or `--output-format json`.

    Raises:
        WireError: it is something else.
    """
    if not text.strip():
        raise WireError("it is empty, as neuron-ls leaves it where there is no device")
    if len(text) > MOST_DOCUMENT_BYTES:
        raise WireError(f"more than {MOST_DOCUMENT_BYTES} bytes, which neuron-ls -j does not print")
    data = parse_json(text)
    # The form of --output-format json: facts of the instance, and the devices in one of its keys.
    facts = data if isinstance(data, dict) else {}
    entries = next((value for value in facts.values() if is_device_list(value)), data)
    if not is_device_list(entries):
        raise WireError("not what neuron-ls prints: no array of objects with neuron_device")
    devices = tuple(_device(entry) for entry in entries)
    numbers = [device.number for device in devices]
    if len(set(numbers)) < len(numbers):
        raise WireError("two devices have the same neuron_device")
    names = [
        text_of(facts.get(name)) or text_of(entries[0].get(name))
        for name in ("instance_type", "instance_id")
    ]
    return DeviceList(devices, *names)


def is_device_list(data: Any) -> bool:
    """Return whether parsed JSON is neuron-ls's."""
    return (
        isinstance(data, list)
        and 0 < len(data) <= MOST_DEVICES
        and all(isinstance(entry, dict) and "neuron_device" in entry for entry in data)
    )


def _device(entry: dict[str, Any]) -> Device:
    number = entry["neuron_device"]
    if type(number) is not int or number < 0:
        raise WireError(f"neuron_device is {str(number)[:40]!r}, not a number from 0")
    bdf = text_of(entry.get("bdf")).lower()
    return Device(
        number,
        bdf if not bdf or bdf.count(":") == 2 else f"0000:{bdf}",
        frozenset(_numbers(entry.get("connected_to"))),
        tuple(_numbers(entry.get("neuroncore_ids"))),
    )


def _numbers(value: Any) -> list[int]:
    return [number for number in value if type(number) is int] if isinstance(value, list) else []


def _chip_of(device: Device, kind: InstanceType) -> int | None:
    buses = _BDF.get((kind.chip.name, kind.chips), ())
    for chip, bus in enumerate(buses):
        if device.bdf == f"0000:{bus}:00.0":
            return chip
    matches = [chip for chip in range(kind.chips) if _neighbours(kind, chip) == device.neighbours]
    return matches[0] if len(matches) == 1 else None


def _neighbours(kind: InstanceType, chip: int) -> frozenset[int]:
    """Return the linked chips of a chip within the instance."""
    ends = kind.topology.ends[chip]
    return frozenset(end.member for end in ends if end is not None and end.member != chip)
