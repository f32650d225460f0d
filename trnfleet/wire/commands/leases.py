"""Leases, as those who ask and those who grant have to agree on them."""

from __future__ import annotations

FORWARD = "forward"
"""The action of a command that asks for a lease, renews it, or gives it back."""
LEASE_S = 60.0
"""Seconds of a lease, unless the command says other."""
LONGEST_S = 300.0
"""Longest lease: what a viewer that died has asked for is forwarded so long."""
RENEW_S = 20.0
"""Seconds from one renewal to the next: two of them may be lost."""
