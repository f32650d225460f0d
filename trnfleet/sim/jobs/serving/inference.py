"""Inference jobs by request: router, replica lives, and the jobs' figures.

Time advances in slots, with requests arriving at their begin. A replica processes the waiting
prompts, then decodes in the remaining time: one pass advances all sequences of its batch. Prompts
and passes are padded to compiled sizes. Without sequences it is idle.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.jobs import Inference
from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.serving.requests import (
    SLOT_S,
    Arrivals,
    Lengths,
    Load,
    RequestSlots,
    poisson,
)
from trnfleet.sim.jobs.serving.times import (
    ServingTimes,
    bucket,
    length_shares,
    padded,
    serving_times,
    used_share,
)
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.jobs.startup import STARTUP, Startup, StartWork
from trnfleet.sim.rng import Rng, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import Job
    from trnfleet.domain.hardware.catalogue import ChipType

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
    padded_s: Row
    """Seconds of sequences in the batch, padding included."""
    waited_s: Row
    """Seconds of sequences, including time spent on prompts."""
    first_s: Row
    """Work that waits and a prompt's own, times the slot's seconds."""


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
        """Time of a waiting prompt's prefill, mean of each replica; of the last if none waits."""
        self.most = of_replicas("max_batch")
        """Largest batch."""
        self._weights_s, self._sequence_s = of_replicas("weights_s"), of_replicas("sequence_s")
        self._compute_s, self._overhead_s = of_replicas("compute_s"), of_replicas("overhead_s")
        self._accepted, self._answer = of_replicas("accepted"), of_replicas("answer_tokens")
        costs = [padded(replica.prompt_tokens) for replica in times]
        self._prompts = Lengths(
            [
                replica.prefill_s * cost / cost.mean()
                for replica, cost in zip(times, costs, strict=True)
            ],
            job,
        )
        self._answers = Lengths([replica.answer_tokens * length_shares() for replica in times], job)
        largest = int(self.most.max(initial=0.0))
        self._buckets = np.array([bucket(size, largest) for size in range(largest + 1)])
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

    def serve(self, length_s: float, speed: Row, came: Row, words: NDArray[np.uint64]) -> SlotWork:
        """Work for some seconds: prompts that fit the batch first, then decode.

        Args:
            length_s: These seconds.
            speed: Speed of each replica as a share of its full speed.
            came: Requests that arrive at their begin.
            words: Random words of the slot, from which lengths follow.
        """
        budget_s = speed * length_s
        # Bits that hardly count in the number of requests.
        drawn_s = self._prompts.mean(words >> np.uint64(16), came)
        _mix(self.prefill_s, self._waiting, drawn_s, came)
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
        drawn = self._answers.mean(words >> np.uint64(32), prefills)
        _mix(answer, self._sequences, drawn, prefills)
        self._sequences += prefills

        batch = self.size
        size = np.minimum(np.take(self._buckets, batch.astype(np.intp)), self.most)
        memory_s = self._weights_s + self._sequence_s * size
        pass_s = np.maximum(memory_s, self._compute_s * size) + self._overhead_s
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
        waited_s += batch * decode_s
        queued_s += self._waiting * prefill_s - self._prefilled_s
        if blocked.any():
            # Each waits for a place in the batch.
            queued_s += 2.0 * blocked * answer * pass_s / np.maximum(a_pass, 1.0)
        # And for the rest of the prompt that is worked on.
        first_s = np.maximum(queued_s, 0.0) * (0.5 * length_s) + spent_s * (0.5 * prefill_s)
        return SlotWork(
            spent_s,
            decode_s,
            passes,
            prefills,
            tokens,
            passes * (self._weights_bytes + size * self._sequence_bytes),
            size * decode_s,
            waited_s,
            first_s + prefill_s * length_s,
        )


RECENT_S = 30.0
"""Time constant of the mean time per token. A mean, because there is no value while a replica
processes prompts."""
_LIVED_PASSES = 2**24
"""Most passes of a replica before the start: assumed."""


class ReplicaWork(NamedTuple):
    """Work of all replicas in a window.

    Arrays of shape (replicas,); shares are of the window.
    """

    prefill: Row
    """Time in prefill."""
    decode: Row
    """Time in decode."""
    hang: Row
    """Share of time in a hang."""
    start: StartWork
    """The restart after a failure, shares of the window."""
    pace: Row
    """Work of a second of prefill or decode, relative to a healthy replica's."""
    batch_share: Row
    """Sequences of a pass as a share of the largest batch, padding included."""
    hbm_read_bytes_per_s: Row
    """Read by one chip for decode."""
    flops: Row
    """Model FLOP/s of one chip."""
    there: Row
    """Share with running processes. A start counts as far as weights are loaded."""
    hbm_used: Row
    """Share of HBM of weights, KV cache and runtime, if the replica is there."""
    latency_s: Row
    """Median time of an execution: a pass, or a prefill without passes. NaN without either."""


class ServingFigures(NamedTuple):
    """Figures of the jobs in a window, arrays of shape (jobs,)."""

    tokens_per_s: Row
    ttft_s: Row
    """Expected time to first token of a new request: the replicas' queues, and its prefill."""
    tpot_s: Row
    """Mean over the tokens of the last half minute; NaN without any."""
    batch: Row
    """Sequences of a replica, mean over the replicas."""
    kv_share: Row
    """HBM share of the sequences' KV cache, mean over the replicas."""
    capacity: Row
    """Share of the replicas' speed that is left."""


class InferenceJobs:
    """All replicas of all inference jobs, job after job."""

    def __init__(
        self,
        jobs: Sequence[Inference],
        ordinals: NDArray[np.intp],
        chips: NDArray[np.int64],
        chip_types: Sequence[ChipType],
        rng: Rng,
        replica_chips: Sequence[int],
        load_s: Sequence[float],
    ) -> None:
        """Check the jobs of the file against the hardware.

        Args:
            jobs: From the fleet file.
            ordinals: Their numbers among all jobs of the file, which key their noise.
            chips: How many chips each runs on.
            chip_types: The chip that each runs on (the smallest, where they differ).
            rng: The run's randomness.
            replica_chips: Chips of a replica of each.
            load_s: Time that the weights of a replica of each take to load.

        Raises:
            ConfigError: replicas do not fill the chips, a model does not fit, or a time per token
                is impossible.
        """
        for job, count, size in zip(jobs, chips.tolist(), replica_chips, strict=True):
            if count % size:
                raise ConfigError(
                    f"jobs.{job.name}.chips_per_replica = {size}: its {count} chips are not a whole"
                    " number of replicas"
                )
        self.times = [
            serving_times(job, kind, size)
            for job, kind, size in zip(jobs, chip_types, replica_chips, strict=True)
        ]
        """Of a replica of each job."""
        self._rng = rng
        self.loads = Load(jobs, ordinals, rng)
        sizes = np.array(replica_chips, np.int64)
        self.count = chips // sizes if len(jobs) else np.zeros(0, np.int64)
        """Replicas of each job."""
        self.job = np.repeat(np.arange(len(jobs)), self.count)
        """Place among the jobs given of the job of each replica."""
        self._begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.count)])[:-1]
        self._arrivals = Arrivals(len(self.job), rng)
        self._carries = np.array([replica.requests_per_s for replica in self.times])
        self._batches = Batches(self.times, self.job)
        self._chips = sizes[self.job].astype(np.float64)
        prompt, flops = (
            np.array([getattr(replica, name) for replica in self.times])[self.job]
            for name in ("prompt_tokens", "flops_per_token")
        )
        self._prompt_per_s = prompt / self._batches.prefill_s
        self._flops_per_token = flops / self._chips
        room = np.array([kind.hbm_bytes.value for kind in chip_types], np.float64) * sizes
        # The cache is allocated with the model, and does not grow with the sequences in it.
        self._hbm_used = np.array(
            [
                used_share(job, replica, hbm)
                for job, replica, hbm in zip(jobs, self.times, room, strict=True)
            ]
        )[self.job]
        self._startup = Startup(
            np.zeros(len(self.job)),
            np.array(load_s)[self.job],
            np.array([job.startup_s for job in jobs])[self.job],
        )
        self._is_new = np.array([job.starts_at_s is not None for job in jobs], np.bool_)

        replicas = len(self.job)
        lived = rng.uniform(Stream.JOB_START, 2, replicas) * _LIVED_PASSES
        self._executions = np.where(self._is_new[self.job], 0.0, lived) if replicas else lived
        self._recent = np.zeros((2, len(jobs)))
        self._is_alive = False
        self._slots = RequestSlots()

    def advance(
        self,
        elapsed_s: float,
        middle_s: float,
        time_of_day_s: float,
        *,
        pace: Row,
        halt: NDArray[np.int8],
        offered: Row,
        run_s: Row,
        is_kept: NDArray[np.bool_],
    ) -> tuple[ReplicaWork, ServingFigures]:
        """Move on by `elapsed_s` and return the work done.

        Args:
            elapsed_s: Length of the window.
            middle_s: Its middle, simulated seconds since the start.
            time_of_day_s: Its middle, seconds since midnight UTC.
            pace: Share of speed left to each replica.
            halt: A `Halt` for each replica.
            offered: What each job's load is multiplied by.
            run_s: How much of the window each job runs.
            is_kept: Jobs whose processes are there, whose requests wait while they do not run.
        """
        runs = run_s / elapsed_s
        speed, hang, start, there = self._live(pace, halt, elapsed_s)
        self._batches.clear(~is_kept[self.job])
        rate = self._carries * self.count * runs * offered
        of_job = runs[self.job]
        rates = speed * (1.0 - start.time_s.sum(axis=0)) * of_job
        router = speed * (self._startup.part == len(STARTUP))
        work = None
        simulated_s = 0.0
        for slot, length_s, has_arrivals in self._slots.split(elapsed_s, middle_s):
            came = np.zeros(len(self.job))
            words = self._arrivals.words(slot)
            if has_arrivals and len(came):
                at_s = (slot + 0.5) * SLOT_S
                load = self.loads.at(at_s, time_of_day_s + (at_s - middle_s), SLOT_S)
                came = self._route(slot, load * rate, router, words)
            part = self._batches.serve(length_s, rates, came, words)
            work = (
                part
                if work is None
                else SlotWork(*(a + b for a, b in zip(work, part, strict=True)))
            )
            simulated_s += length_s
        assert work is not None  # noqa: S101  for the type checker; every window has a slot
        work = SlotWork(*(amount / simulated_s for amount in work))
        self._executions += (work.passes + work.prefills) * elapsed_s
        done = ReplicaWork(
            prefill=_over(work.prefill_s, speed),
            decode=_over(work.decode_s, speed),
            hang=hang * of_job,
            start=StartWork(*(share * of_job for share in start)),
            pace=speed,
            batch_share=work.padded_s / self._batches.most,
            hbm_read_bytes_per_s=work.read_bytes / self._chips,
            flops=(work.tokens + work.prefill_s * self._prompt_per_s) * self._flops_per_token,
            there=there,
            hbm_used=self._hbm_used,
            latency_s=self._latency_s(work, speed),
        )
        return done, self._figures(work, router, speed, elapsed_s)

    def executions(self) -> NDArray[np.uint64]:
        """Return how many executions each replica has completed: passes and prefills."""
        return np.floor(self._executions).astype(np.uint64)

    def _live(
        self, pace: Row, halt: NDArray[np.int8], elapsed_s: float
    ) -> tuple[Row, Row, StartWork, Row]:
        """Return each replica's speed, and its shares of a window.

        The shares are: hung, starting, and present at all.
        """
        is_down = halt >= Halt.DOWN
        self._startup.restart(is_down, is_cold=False)
        self._batches.clear(is_down)
        speed = np.where(halt == Halt.NONE, pace, 0.0)
        start = self._startup.advance(np.where(halt == Halt.NONE, elapsed_s, 0.0)).over(elapsed_s)
        hang = (halt == Halt.HANG).astype(np.float64)
        there = 1.0 - start.time_s.sum(axis=0) + start.loaded_s
        return speed, hang, start, np.where(is_down, 0.0, there)

    def _route(self, slot: int, rate: Row, router: Row, words: NDArray[np.uint64]) -> Row:
        """Return how many requests come to each replica in a slot.

        Args:
            slot: Its number.
            rate: Requests a second of each job.
            router: Share of its capacity with which each replica is there for the router.
            words: Random words of the slot.
        """
        weights = self._arrivals.weights(slot) * router
        total = np.add.reduceat(weights, self._begin)
        mean = (rate / np.where(total > 0, total, 1.0))[self.job] * weights
        if not self._is_alive:
            self._begin_life(mean)
        return poisson(mean * SLOT_S, words)

    def _begin_life(self, rate: Row) -> None:
        """Fill the replicas of jobs in the middle of their lives with their usual sequences."""
        self._is_alive = True
        first = np.maximum.reduceat(rate, self._begin)
        batch = np.array(
            [replica.batch_at(float(mean)) for replica, mean in zip(self.times, first, strict=True)]
        )
        batch[self._is_new] = 0.0
        self._batches.begin(np.where(rate > 0, batch[self.job], 0.0), self._rng)

    def _latency_s(self, work: SlotWork, speed: Row) -> Row:
        latency = np.full(len(speed), np.nan)
        np.divide(work.decode_s, work.passes, out=latency, where=work.passes > 0)
        alone = np.flatnonzero((work.passes <= 0) & (work.prefill_s > 0))
        latency[alone] = self._batches.prefill_s[alone]
        return _over(latency, speed)

    def _figures(self, work: SlotWork, router: Row, speed: Row, elapsed_s: float) -> ServingFigures:
        """Return the figures of the jobs."""
        if not len(self.job):
            return ServingFigures(*(np.zeros(0) for _ in ServingFigures._fields))

        def total(values: Row) -> Row:
            result: Row = np.add.reduceat(values, self._begin)
            return result

        there = total(router)
        # A request goes to a replica by its speed, and waits the longer the slower it is: the two
        # cancel out.
        first_s = total(np.where(router > 0, work.first_s, 0.0))
        replicas_there = np.where(there > 0, there, np.nan)
        recent = self._recent * math.exp(-elapsed_s / RECENT_S)
        recent += np.stack([total(_over(work.waited_s, speed)), total(work.tokens)]) * elapsed_s
        self._recent = recent
        # What sequences spent in the batch: Little's law.
        batch = total(_over(work.waited_s, speed)) / self.count
        return ServingFigures(
            tokens_per_s=total(work.tokens),
            ttft_s=first_s / replicas_there,
            tpot_s=np.where(recent[1] > 1e-3, recent[0] / np.maximum(recent[1], 1e-3), np.nan),
            batch=batch,
            kv_share=np.minimum(batch / self._batches.most[self._begin], 1.0),
            capacity=there / self.count,
        )


def inference_of(jobs: Sequence[Job]) -> tuple[list[Inference], NDArray[np.intp]]:
    """Return a file's inference jobs and their numbers among all its jobs."""
    chosen = [(number, job) for number, job in enumerate(jobs) if isinstance(job, Inference)]
    return [job for _, job in chosen], np.array([number for number, _ in chosen], np.intp)


def _mix(mean: Row, count: Row, other: Row, more: Row) -> None:
    """Make the mean of a number of values that of `more` others as well, in place."""
    other -= mean
    other *= more / np.maximum(count + more, 1.0)
    mean += other


def _over(work: Row, speed: Row) -> Row:
    """Return the duration of work at a speed."""
    return work / np.where(speed > 0, speed, 1.0)
