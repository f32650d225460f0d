"""Queue, prefill and batch of serving replicas: their work in a slot of time.

A replica processes the waiting prompts, then decodes in the remaining time: one pass advances all
sequences of its batch. Without sequences it is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.sim.jobs.serving.requests import poisson
from trnfleet.sim.rng import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.sim.jobs.serving.times import ServingTimes
    from trnfleet.sim.rng import Rng

    Row = NDArray[np.float64]

MAX_WAIT_S = 30.0
"""Longest queue at a replica, in seconds of its capacity: assumed. The router sheds further
requests. Clients are assumed to time out then."""
_EDGE = 1e-6
"""Relative rounding of counts."""


class SlotWork(NamedTuple):
    """Work of a slot, in a healthy replica's seconds."""

    prefill_s: Row
    decode_s: Row
    passes: Row
    prefills: Row
    tokens: Row
    read_bytes: Row
    """Read by all chips for decode."""
    sequence_s: Row
    """Seconds of sequences in the batch."""
    waited_s: Row
    """Seconds of sequences, including time spent on prompts."""
    queued_s: Row
    """Work that waits, times the slot's seconds."""


class Batches:
    """The requests at each replica; arrays of shape (replicas,)."""

    def __init__(self, times: Sequence[ServingTimes], job: NDArray[np.intp]) -> None:
        """Begin without requests.

        Args:
            times: Of a replica of each job that serves.
            job: Place among these of the job of each replica.
        """

        def of_replicas(name: str) -> Row:
            return np.array([float(getattr(replica, name)) for replica in times])[job]

        self.prefill_s = of_replicas("prefill_s")
        """Time of one prefill."""
        self.most = of_replicas("max_batch")
        """Largest batch."""
        self._weights_s, self._sequence_s = of_replicas("weights_s"), of_replicas("sequence_s")
        self._compute_s, self._overhead_s = of_replicas("compute_s"), of_replicas("overhead_s")
        self._accepted, self._answer = of_replicas("accepted"), of_replicas("answer_tokens")
        self._weights_bytes = of_replicas("weights_bytes")
        self._sequence_bytes = of_replicas("sequence_bytes")
        self._carry = of_replicas("requests_per_s")
        self._most_waiting = np.maximum(np.ceil(MAX_WAIT_S * self._carry), 2.0)
        self._waiting, self._prefilled_s, self._sequences, self._made = (
            np.zeros(len(job)) for _ in range(4)
        )

    @property
    def size(self) -> Row:
        """Sequences of a pass."""
        return np.minimum(self._sequences, self.most)

    def begin(self, mean: Row, rng: Rng) -> None:
        """Fill replicas in the middle of their lives with `mean` sequences, their usual number."""
        words = rng.words(Stream.REPLICA_START, 0, len(mean))
        self._sequences = np.minimum(poisson(mean, words), self.most)
        made = rng.uniform(Stream.REPLICA_START, 1, len(mean))
        self._made = np.where(self._sequences > 0, np.floor(made * self._answer), 0.0)

    def clear(self, chosen: NDArray[np.bool_]) -> None:
        """Drop the requests of some replicas, because their processes are gone."""
        for state in (self._waiting, self._prefilled_s, self._sequences, self._made):
            state[chosen] = 0.0

    def serve(self, length_s: float, speed: Row, came: Row) -> SlotWork:
        """Work for some seconds: prompts that fit the batch first, then decode.

        Args:
            length_s: These seconds.
            speed: Speed of each replica as a share of its full speed.
            came: Requests that arrive at their begin.
        """
        budget_s = speed * length_s
        prefill_s = self.prefill_s
        answer = self._answer
        self._waiting = np.minimum(self._waiting + came, self._most_waiting)
        # As seen by a request arriving at any time: requests of one slot do not queue behind
        # each other.
        queued_s = np.maximum(self._waiting - came, 0.0) * prefill_s - self._prefilled_s
        # What a replica completes within the slot makes room, too.
        room = np.floor(np.maximum(self.most + self._carry * length_s - self._sequences, 0.0))
        blocked = np.maximum(self._waiting - room, 0.0)
        prompts_s = np.minimum(self._waiting, room) * prefill_s - self._prefilled_s
        spent_s = np.minimum(np.maximum(prompts_s, 0.0), budget_s)
        done_s = self._prefilled_s + spent_s
        prefills = np.floor(done_s / prefill_s + _EDGE)
        self._prefilled_s = np.maximum(done_s - prefills * prefill_s, 0.0)
        waited_s = self.size * spent_s
        self._waiting -= prefills
        self._sequences += prefills

        batch = self.size
        memory_s = self._weights_s + self._sequence_s * batch
        pass_s = np.maximum(memory_s, self._compute_s * batch) + self._overhead_s
        a_pass = batch * self._accepted
        passes = (budget_s - spent_s) / pass_s
        left = self._sequences * answer - self._made
        tokens = np.minimum(passes * a_pass, left)
        passes = tokens / np.maximum(a_pass, 1.0)
        decode_s = passes * pass_s
        made = self._made + tokens
        answers = np.floor(made / answer + _EDGE)
        self._sequences -= answers
        self._made = np.maximum(made - answers * answer, 0.0)
        sequence_s = batch * decode_s
        waited_s += sequence_s
        queued_s += self._waiting * prefill_s - self._prefilled_s
        if blocked.any():
            # Each waits for a place in the batch.
            queued_s += 2.0 * blocked * answer * pass_s / np.maximum(a_pass, 1.0)
        # And for the rest of the prompt that is worked on.
        queued_s = np.maximum(queued_s, 0.0) * (0.5 * length_s) + spent_s * (0.5 * prefill_s)
        return SlotWork(
            spent_s,
            decode_s,
            passes,
            prefills,
            tokens,
            passes * (self._weights_bytes + batch * self._sequence_bytes),
            sequence_s,
            waited_s,
            queued_s,
        )
