"""Rate limits of commands: a token bucket per client, and one per kind of command.

The command itself names its client, so the buckets of all clients together are bounded, too.
Read-only commands have a separate total: any number of them leaves room for changing ones.
"""

from __future__ import annotations

from collections import OrderedDict

RATE_PER_S = 2.0
"""Commands of one client in the long run; users and scripts need less."""
BURST = 20
"""Commands of one client at once."""
TOTAL_PER_S = 4.0
"""Commands of all clients in the long run: two at their full rate."""
TOTAL_BURST = 60
"""Commands of all clients at once: three with a full burst."""
MOST_CLIENTS = 1_024
"""Most buckets. The least recently used is dropped first; its client then begins with a full one.
"""
READ_PER_S = 100.0
READ_BURST = 200
"""Payloads parsed to find the client. At 16 KiB each far below one percent of a core."""
ANSWERED_PER_S = 10.0
ANSWERED_BURST = 40
"""Rate refusals with an answer. Further ones are only counted, so that a flood causes no flood of
replies."""


class TokenBucket:
    """Tokens refilled at a rate, up to a burst."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        """Return the time until a token is there; 0 where one is."""
        if self._filled_s is not None:
            passed_s = max(0.0, now_s - self._filled_s)
            self._tokens = min(self._burst, self._tokens + passed_s * self._rate_per_s)
        self._filled_s = now_s
        return max(0.0, (1.0 - self._tokens) / self._rate_per_s)

    def take(self, now_s: float) -> bool:
        """Take a token; return whether there was one."""
        if self.wait_s(now_s) > 0.0:
            return False
        self._tokens -= 1.0
        return True


class CommandRates:
    """The rate limits of the commands to one program."""

    def __init__(self) -> None:
        self._read = TokenBucket(READ_PER_S, READ_BURST)
        self._answered = TokenBucket(ANSWERED_PER_S, ANSWERED_BURST)
        self._totals = {changes: TokenBucket(TOTAL_PER_S, TOTAL_BURST) for changes in (False, True)}
        self._clients: OrderedDict[str, TokenBucket] = OrderedDict()

    def may_read(self, now_s: float) -> bool:
        """Return whether one more payload may be parsed."""
        return self._read.take(now_s)

    def may_answer(self, now_s: float) -> bool:
        """Return whether one more refusal for the rate may be answered."""
        return self._answered.take(now_s)

    def refusal(self, client: str, now_s: float, *, changes: bool) -> str:
        """Use a token for a command; return the reason if there is none, else empty.

        Args:
            client: The sender named by the command.
            now_s: Monotonic seconds.
            changes: Whether the command may change something.
        """
        own = self._clients.get(client)
        if own is None:
            own = self._clients[client] = TokenBucket(RATE_PER_S, BURST)
            if len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(client)
        total = self._totals[changes]
        own_wait_s = own.wait_s(now_s)
        total_wait_s = total.wait_s(now_s)
        if own_wait_s > 0.0:
            return _reason("one client", RATE_PER_S, BURST, own_wait_s)
        if total_wait_s > 0.0:
            return _reason("all clients together", TOTAL_PER_S, TOTAL_BURST, total_wait_s)
        own.take(now_s)
        total.take(now_s)
        return ""


def _reason(whose: str, rate_per_s: float, burst: int, wait_s: float) -> str:
    return (
        f"more than {rate_per_s:g} commands a second (bursts of {burst}) of {whose}; "
        f"try again in {wait_s:.1f} s"
    )
