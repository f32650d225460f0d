"""Terms of leases, shared by the requesting and the granting side."""

from __future__ import annotations

FORWARD = "forward"
"""Action of commands for requesting, renewing or returning a lease."""
LEASE_S = 60.0
"""Default seconds of a lease."""
LONGEST_S = 300.0
"""Longest lease: limits forwarding after a viewer has died."""
RENEW_S = 20.0
"""Seconds from one renewal to the next: two of them may be lost."""
