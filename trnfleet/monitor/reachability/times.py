"""Times and shares of reachability.

| what waits | for what | how long |
|---|---|---|
| values that become stale | a message | `STALE_AFTER_PERIODS`, at most `MOST_PERIODS` |
| doubt in a connection or publisher | a message | `QUIET_FROM_PERIODS`, at least `QUIET_FROM_S` |
| proof that a connection is whole | last wills of lost publishers | `proof_s` of the monitor |
| silence after a break | reconnecting sources | its length, at most `RECONNECT_S`, and 3 periods |
| last wills after a long break | reconnecting publishers | `RECONNECT_S` |
| losses after a large layout | the first telemetry of all | `RECONNECT_S` |
| a recording that is thinned less | an equally thinned topic | `RECONNECT_S` |
| the end of an overload | another late or shed message | `OVERLOAD_GAP_S` |
| losses during late telemetry | the overload's own alert | `TOLD_FROM_S` |
| a share of lost messages | enough messages | `LOSS_WINDOW_S` |
| a known delay of messages | the next batch | `KNOWN_FOR_S` |
"""

from __future__ import annotations

RECONNECT_S = 10.0
"""Seconds until sources are back after a break, or have all come after a join.

Publishers reconnect within it. No publisher loses its connection in a shorter break.
"""
QUIET_FROM_S = 0.5
QUIET_FROM_PERIODS = 2.0
"""Periods without a message before a publisher or connection is in doubt. Less than the three
periods before a source is stale, so that none is called silent before."""
PAUSE_FROM_S = 1.0
"""Least delay of the loop to count as a pause of the process. The longest slice of work is far
shorter."""
KNOWN_FOR_S = 1.0
"""Seconds a measured delay of messages is valid."""
BEHIND_FROM_S = 2.0
"""Delay of messages from which the monitor is behind: two ticks of a usual source."""
OVERLOAD_GAP_S = 5.0
"""Overloads less than this apart count as one."""
TOLD_FROM_S = 3.0
"""Length of an overload from which its rule fires, as in `config/alerts/pipeline.toml`."""
LOSS_WINDOW_S = 3.0
LEAST_MESSAGES = 10
"""Fewest messages of a window for a meaningful share of lost ones."""
LOSSY_FROM = 0.5
"""Share of messages after a gap from which silence means loss. Needs most topics at once."""
LOSSY_OVERLOADED_FROM = 0.1
"""The same during an overload: the broker's queue for this monitor then drops messages as well."""
MOST_PERIODS = 9.0
"""Periods after which values are stale even while most messages are lost."""
JOINS_FROM = 1_000
"""Instances whose retained messages fill Mosquitto's queue for a client. It then drops telemetry
beside them."""
JOINS_WITHIN_S = 120.0
"""Longest time after a connection for joining."""
JUDGED_WITHIN_S = 0.4
"""Longest time between two freshness checks without messages, and at most half a period."""
