"""Limits of data from the wire, checked before anything is parsed or stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds; messages beyond them are dropped and counted."""

    payload_bytes: int = 131_072
    """Bytes of a message. 128 KB is also AWS IoT Core's limit."""
    instances: int = 1_024
    """Instances in one descriptor."""
    columns: int = 128
    """Columns in one descriptor."""
    lane_types: int = 64
    """Most instance types with link lanes in one descriptor."""
    text_chars: int = 256
    """Characters of any string."""
    fleet_instances: int = 280_000
    """Most instances of a monitor: 4,200,000 chips of one publisher, and room for others."""
    descriptors_bytes: int = 384 * 2**20
    """Memory of all descriptors. One instance's needs 1 to 2 KB; shared columns count once."""
    topics: int = 500_000
    """Most described telemetry topics with a sequence number in a monitor."""
    jobs: int = 20_000
    """Most jobs of a monitor."""
    reservations: int = 4_096
    """Most reservations of a monitor."""
    places: int = 100_000
    """Most addresses and ranges named by all jobs together; likewise addresses, EC2 ids and
    extensions of all reservations."""
    alerts: int = 100_000
    """Most alerts of `watch`, and most acknowledgements of them, in a monitor."""
    silences: int = 1_000
    """Most silences of a monitor: each is matched with every alert."""
    alerts_bytes: int = 160 * 2**20
    """Memory of all alerts of `watch`: 1.5 KB each."""
    retained_bytes: int = 48 * 2**20
    """Memory of the messages of any other retained class, descriptors apart."""
    publishers: int = 100_000
    """Most publisher boots in a monitor: each of 62,500 instances may have its own."""
    watches: int = 1_000
    """Most watches in a monitor."""
    undescribed: int = 100_000
    """Most distinct paths of telemetry without a descriptor, and most boots of publishers without
    one. Hosts' presences arrive before their descriptors; a full table drops the oldest."""


DEFAULT_LIMITS = Limits()
