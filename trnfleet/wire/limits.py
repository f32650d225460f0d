"""Limits of data from the wire, checked before anything is parsed or stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds; messages beyond them are dropped and counted."""

    payload_bytes: int = 131_072
    """A frame, descriptor, job or publisher message: 128 KB, which AWS IoT Core takes too."""
    json_bytes: int = 65_536
    """A JSON telemetry message."""
    instances: int = 1_024
    """Instances in one descriptor."""
    columns: int = 128
    """Columns in one descriptor."""
    lane_types: int = 64
    """Instance types whose link lanes one descriptor names."""
    text_chars: int = 256
    """Characters of any string."""
    fleet_instances: int = 280_000
    """Instances that a monitor keeps: 4,200,000 chips of one publisher, and room for others."""
    descriptors_bytes: int = 384 * 2**20
    """Memory of all descriptors; one of an instance takes 1 to 2 KB, columns that several have in common count once."""
    topics: int = 500_000
    """Telemetry topics that a monitor keeps a sequence number for: those that a descriptor covers."""
    jobs: int = 20_000
    """Jobs that a monitor keeps."""
    job_places: int = 100_000
    """Addresses and ranges that all jobs together may name."""
    reservations: int = 4_096
    """Reservations that a monitor keeps."""
    reservation_places: int = 100_000
    """Addresses, EC2 ids and extensions that all reservations together may name."""
    alerts: int = 100_000
    """Alerts of `watch` that a monitor keeps."""
    acks: int = 10_000
    """Acknowledgements that a monitor keeps."""
    silences: int = 1_000
    """Silences that a monitor keeps: each is matched with every alert."""
    jobs_bytes: int = 48 * 2**20
    """Memory of all jobs."""
    reservations_bytes: int = 48 * 2**20
    """Memory of all reservations."""
    alerts_bytes: int = 160 * 2**20
    """Memory of all alerts of `watch`: 1.5 KB each."""
    retained_bytes: int = 16 * 2**20
    """Memory of all messages of any other retained class, such as silences."""
    publishers: int = 100_000
    """Boots of publishers that a monitor keeps: each of 62,500 instances may have its own."""
    undescribed_publishers: int = 100_000
    """Boots of them that no descriptor names: hosts' presences come before their descriptors, which take the place of the oldest where
    there is no room left."""
    watches: int = 1_000
    """Watches that a monitor keeps."""
    undescribed_paths: int = 100_000
    """Paths that are told apart among those that publish telemetry without a descriptor."""


DEFAULT_LIMITS = Limits()
