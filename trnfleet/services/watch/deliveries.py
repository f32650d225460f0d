"""Deliveries of a watch: each receiver runs alone, and one that fails is run again.

A webhook or an Alertmanager that is away is retried by its receiver. Failures that come here
have no retry of their own: a closed stdout, a full disk, a bug. Only a closed stdout stays closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.export.receiver import pause_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.clock import Clock
    from trnfleet.export.receiver import Receiver
    from trnfleet.tasks import Ending

log = logs.get_logger(__name__)


class Deliveries:
    """The receivers of a watch while they run."""

    def __init__(self, receivers: Sequence[Receiver], clock: Clock, ending: Ending) -> None:
        """Prepare the deliveries.

        Args:
            receivers: The receivers.
            clock: The time to go by.
            ending: Asked for the end of the watch when its only receiver is closed.
        """
        self.problem = ""
        """Why the watch ends: its only receiver is closed. Empty otherwise."""
        self._receivers = receivers
        self._clock = clock
        self._ending = ending

    async def run(self, receiver: Receiver) -> None:
        """Run a receiver until cancelled, again after each failure."""
        attempt = 0
        tally = receiver.tally
        while True:
            delivered = tally.delivered
            try:
                await receiver.run()
            except BrokenPipeError as error:
                why = error.strerror or str(error)
                if len(self._receivers) == 1:
                    self.problem = f"nobody can be notified: {receiver.name}: {why}"
                    self._ending.ask()
            except OSError as error:
                why = error.strerror or str(error)
            except Exception as error:  # a bug in one receiver must not end the others
                why = f"internal error: {type(error).__name__}"
                log.exception("receiver_crashed", receiver=receiver.name, kind=why)
            else:
                return
            receiver.note_failure(why)
            attempt = 0 if tally.delivered > delivered else attempt
            tally.retried += 1
            await self._clock.sleep(pause_s(attempt))
            attempt += 1
