"""The service that steps an engine and publishes its ticks through the port `Publisher`.

Owns the schedule and the order of messages. It knows no broker, and no time but its clock's.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from trnfleet import logs
from trnfleet.domain.faults.table import FAULTS
from trnfleet.errors import ConfigError
from trnfleet.sim.publish.partition import partition
from trnfleet.sim.publish.state import (
    Boots,
    descriptor,
    event_envelope,
    job_envelope,
    presence,
    reservation_envelope,
    will_envelope,
)
from trnfleet.sim.publish.telemetry import ShardMessages, encode_samples
from trnfleet.sim.reservations.messages import answer
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import REPEAT_S
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope, Publisher
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trnfleet.clock import Clock
    from trnfleet.domain.fleet import Publishing
    from trnfleet.sim.engine import Engine, Tick

log = logs.get_logger(__name__)

MOST_LISTED = 500
"""Incidents that an answer lists."""

REPEAT_JOBS_S = 10.0
"""Every job is published again within this time where there are more than `JOBS_EACH_TICK`."""
JOBS_EACH_TICK = 64
AT_ONCE = 300
"""Messages per burst accepted by any broker's queue (Mosquitto's default is 1,000)."""
SLICE_S = 0.02
"""Seconds between slices of a larger number of messages."""
SPREAD = 0.7
"""Share of the period used for the slices; the rest is for the next tick."""


class Simulation:
    """The publishing run of a fleet, or of a shard of one."""

    def __init__(
        self,
        engine: Engine,
        publisher: Publisher,
        *,
        clock: Clock,
        client_id: str,
        boot: str,
        root: str = DEFAULT_ROOT,
        publishing: Publishing | None = None,
        limits: Limits = DEFAULT_LIMITS,
        speed: float = 1.0,
        is_dated: bool = False,
        jump_s: float = 0.0,
        first_seq: int = 0,
    ) -> None:
        """Prepare the topics and name the announcements; do it before the publisher connects.

        Args:
            engine: Fresh; its period is `speed` times the wall clock's from tick to tick.
            publisher: Where to; its last will is `state.will_envelope` of the same client and boot.
            clock: Paces the ticks, and dates them where the engine is not dated.
            client_id: The publisher's name, one segment.
            boot: Boot id of this run, see `state.new_boot`.
            root: First part of the topics.
            publishing: Format and granularity; the fleet file's if none is given.
            limits: Of messages.
            speed: Simulated seconds a second of the wall clock.
            is_dated: Keep the engine's date of tick 0; else tick 0 is when the run begins.
            jump_s: Simulated seconds to live through before the first tick that is published.
            first_seq: `seq` of its first tick: as many ticks as the same boot has numbered before.

        Raises:
            ConfigError: format and granularity do not go together, or a message would be over a
                limit.
        """
        self.engine = engine
        self._publisher = publisher
        self._clock = clock
        self._client_id = client_id
        self._boot = boot
        self._root = root
        self._speed = speed
        self._is_dated = is_dated
        self._period_s = engine.period_s / speed
        chosen = publishing or engine.fleet.publish
        self._units = partition(engine.layout, chosen, engine.own, engine.shard)
        self._boots = Boots(engine, boot, self._units)
        self._messages = ShardMessages(engine, boot)
        self._topics: list[str] = []
        self._encoders: list[FrameEncoder] = []
        if chosen.format == "cbor":
            for number, unit in enumerate(self._units):
                name = build_topic(engine.fleet.name, TopicClass.TELEMETRY, unit.path, root)
                self._topics.append(name)
                self._encoders.append(self._encoder(number))
        self._tick: Tick | None = None
        self._is_running = False
        self._descriptor_turn = _Rotation(len(self._units), REPEAT_S)
        self._job_turn = _Rotation(len(self._messages.jobs), REPEAT_JOBS_S)
        self._due = 0
        """Published or skipped periods of the wall clock."""
        self._ahead = self._ticks_of(jump_s)
        """Ticks that the next step jumps over."""
        self._leapt = 0
        """Ticks jumped over so far."""
        self._wants_rebirth = False
        self._first_seq = first_seq
        self.began_ns = 0
        """Wall time of the start."""
        self.published = 0
        """Ticks published."""
        self.overruns = 0
        """Ticks skipped because the machine was late by more than a period."""
        if self._units:
            self._check(limits)
        publisher.on_connect(self._announce)

    @property
    def messages_per_tick(self) -> int:
        """Telemetry messages of one tick when no instance is silent."""
        if self._encoders or not self._units:
            return len(self._encoders)
        chips = int(self._units[-1].chips.stop - self._units[0].chips.start)
        return len(self._units) + chips

    async def run(self, *, ticks: int | None = None, duration_s: float | None = None) -> None:
        """Announce the fleet and publish tick after tick.

        Publish a goodbye at the end, cancelled or not. Tick k is due at the start + k periods.
        Ticks more than one period late are skipped and counted, except before the first tick, since
        it waits for the announcement of a large fleet. Time before the start passes in one step.

        Args:
            ticks: Published ticks after which it ends.
            duration_s: Seconds of the clock after which it ends.
        """
        start_s = self._clock.monotonic_s()
        self.began_ns = self._clock.wall_ns()
        if not self._is_dated:
            self.engine.restart_at(self.began_ns)
        self.engine.begin()
        self._is_running = True
        try:
            await self._publisher.publish(self._announce())
            if self.engine.ticks < 0:
                self.engine.step(-self.engine.ticks)
            while ticks is None or self.published < ticks:
                due_s = start_s + self._due * self._period_s
                if duration_s is not None and due_s - start_s >= duration_s:
                    break
                await self._clock.sleep(due_s - self._clock.monotonic_s())
                skipped = self._skip(due_s)
                await self._publish_tick(due_s + skipped * self._period_s, skipped)
        finally:
            self._is_running = False
            goodbye = will_envelope(
                self.engine.fleet.name, self._client_id, self._boot, root=self._root
            )
            await self._publisher.publish([goodbye])

    def live_through(self, ticks: int) -> Iterator[tuple[int, list[Envelope]]]:
        """Step the engine and yield tick numbers with the messages `run` would publish.

        The fleet is announced with the first of them; no goodbye is published.
        """
        self.engine.begin()
        self._is_running = True
        messages = list(self._announce())
        for seq in range(self._first_seq, self._first_seq + ticks):
            tick = self._tick = self.engine.step()
            self._due += 1
            self.published += 1
            messages += self._telemetry(seq, tick.ts_ns)
            messages += self._beside_telemetry(tick)
            yield tick.number, messages
            messages = []
        self._is_running = False

    def inject(
        self, fault: str, target: str, *, lasts_s: float | None, magnitude: float | None, by: str
    ) -> str:
        """Begin a fault with the next tick; return an answer of one line.

        Raises:
            ConfigError: fault or target is unknown, or they do not go together; the message names
                the nearest.
        """
        return self.engine.inject(fault, target, lasts_s=lasts_s, magnitude=magnitude, by=by)

    def jump(self, by_s: float) -> str:
        """Move the next tick `by_s` simulated seconds further on; return an answer of one line.

        Raises:
            ConfigError: it is less than a tick, or leads beyond the last year that a date can have.
        """
        engine = self.engine
        ticks = self._ticks_of(by_s)
        if not ticks:
            raise ConfigError(
                f"jump of {by_s:g} s: a tick is {engine.period_s:g} s of simulated time, less is no"
                " jump"
            )
        if engine.moment_ns(engine.now_s + by_s + self._ahead * engine.period_s) > LATEST_NS:
            raise ConfigError(f"jump of {by_s:g} s: it leads beyond the year 2200")
        self._ahead += ticks
        ahead_s = ticks * self.engine.period_s
        return (
            f"the next tick jumps ahead by {ahead_s:,.0f} s of simulated time; events in between"
            " are not published"
        )

    def rebirth(self) -> str:
        """Publish all state again with the next tick; return an answer of one line."""
        self._wants_rebirth = True
        return (
            f"{len(self._units)} descriptors and {len(self._messages.jobs)} jobs are published"
            " again"
        )

    def reserve(self, action: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Search, buy or extend Capacity Blocks; return an answer of one line and the result.

        Raises:
            ConfigError: a rule forbids it, or an argument is wrong; the message names the rule and
                the nearest valid choice.
        """
        return answer(self.engine.account, action, args, self._boot)

    def faults(self) -> dict[str, Any]:
        """Return the available faults, and the currently active ones."""
        active = [
            {
                "fault": incident.fault.name,
                "target": incident.address,
                "left_s": (
                    None if math.isinf(incident.ends_s) else incident.ends_s - self.engine.now_s
                ),
            }
            for incident in self.engine.incidents.active()[:MOST_LISTED]
        ]
        return {"known": list(FAULTS), "active": active}

    def _ticks_of(self, seconds: float) -> int:
        return round(seconds / self.engine.period_s)

    def _skip(self, due_s: float) -> int:
        """Return the number of ticks to skip, and count them.

        The next tick is then less than a period late.
        """
        late_s = self._clock.monotonic_s() - due_s
        if late_s <= self._period_s:
            return 0
        skipped = math.floor(late_s / self._period_s)
        if self.published:
            self.overruns += skipped
            log.warning("ticks_skipped", skipped=skipped, late_s=round(late_s, 3), tick=self._due)
        return skipped

    async def _publish_tick(self, due_s: float, skipped: int) -> None:
        ahead = self._ahead
        self._ahead = 0
        dropped = 0
        for passed in self.engine.leap(ahead):
            dropped += len(passed.events)
            self._messages.pass_over(passed)
            # State is published all the same: blocks that were bought, paid or expired meanwhile.
            await self._publisher.publish(self._reservations(passed))
            await self._clock.sleep(0)
        if dropped:
            log.warning("jump_events_dropped", events=dropped)
        tick = self._tick = self.engine.step(1 + skipped)
        self._due += 1 + skipped
        seq = self._first_seq + self.published
        # A tick's number is used even if its messages fail: unsent ones count as lost.
        self.published += 1
        await self._publisher.publish(self._state_again(seq, ahead))
        messages = self._telemetry(seq, tick.ts_ns)
        slices = self._slices()
        size = math.ceil(self.messages_per_tick / slices)
        for number in range(slices):
            if number:
                await self._clock.sleep(due_s + number * SLICE_S - self._clock.monotonic_s())
            await self._publisher.publish(list(itertools.islice(messages, size)))
        await self._publisher.publish(self._beside_telemetry(tick))

    def _slices(self) -> int:
        if self.messages_per_tick <= AT_ONCE:
            return 1
        return max(1, int(self._period_s * SPREAD / SLICE_S))

    def _state_again(self, seq: int, ahead: int) -> Iterator[Envelope]:
        """Yield the descriptors changed with a tick.

        Causes are instances that came back, or a jump in time.
        """
        again = self._boots.renew(seq)
        if ahead:
            self._leapt += ahead
            if seq > self._first_seq:
                self._boots.revise()
            again = list(range(len(self._units)))
        for number in again:
            if self._encoders:
                self._encoders[number] = self._encoder(number)
        if self._wants_rebirth:
            self._wants_rebirth = False
            return self._announce()
        return map(self._describe, again)

    def _telemetry(self, seq: int, ts_ns: int) -> Iterator[Envelope]:
        return self._frames(seq, ts_ns) if self._encoders else self._samples(seq, ts_ns)

    def _beside_telemetry(self, tick: Tick) -> Iterator[Envelope]:
        return itertools.chain(
            self._events(tick),
            self._reservations(tick),
            self._jobs_due(tick),
            self._descriptors_due(),
        )

    def _frames(self, seq: int, ts_ns: int) -> Iterator[Envelope]:
        silent = self.engine.silent
        some_silent = bool(silent.any())
        for number, encoder in enumerate(self._encoders):
            if some_silent and silent[self._units[number].instances].all():
                continue
            head = self._boots.head(number, seq, ts_ns)
            payload = encoder.encode(head.seq, head.ts_ns)
            yield Envelope(self._topics[number], payload, content_type=CONTENT_TYPE_CBOR)

    def _samples(self, seq: int, ts_ns: int) -> Iterator[Envelope]:
        prefix = build_topic(self.engine.fleet.name, TopicClass.TELEMETRY, "", self._root)
        for number, unit in enumerate(self._units):
            head = self._boots.head(number, seq, ts_ns)
            for path, payload in encode_samples(self.engine, head, unit.instances.start):
                yield Envelope(prefix + path, payload, content_type=CONTENT_TYPE_JSON)

    def _announce(self) -> Iterator[Envelope]:
        """Yield all state: presence, and while running the published units."""
        engine = self.engine
        if not self._is_running:
            return
        yield presence(engine.fleet.name, self._client_id, self._boot, "online", root=self._root)
        for number in range(len(self._units)):
            yield self._describe(number)
        for message in self._messages.all_reservations():
            yield reservation_envelope(engine.fleet.name, message, root=self._root)
        if self._tick is not None:
            yield from (self._job(self._tick, number) for number in self._messages.jobs)

    def _events(self, tick: Tick) -> Iterator[Envelope]:
        for event in self._messages.events(tick):
            yield event_envelope(self.engine.fleet.name, event, root=self._root)

    def _reservations(self, tick: Tick) -> Iterator[Envelope]:
        for message in self._messages.reservations(tick):
            yield reservation_envelope(self.engine.fleet.name, message, root=self._root)

    def _jobs_due(self, tick: Tick) -> Iterator[Envelope]:
        """Yield the jobs to publish in a tick: all, or of many the next ones."""
        jobs = self._messages.jobs
        turn = [jobs[place] for place in self._job_turn.due(self._due * self._period_s)]
        numbers = jobs if len(jobs) <= JOBS_EACH_TICK or self.published == 1 else turn
        yield from (self._job(tick, number) for number in numbers)

    def _descriptors_due(self) -> Iterator[Envelope]:
        """Yield the next descriptors in turn: not every broker delivers retained ones."""
        for number in self._descriptor_turn.due(self._due * self._period_s):
            yield self._describe(number)

    def _describe(self, number: int) -> Envelope:
        return descriptor(
            self.engine,
            self._units[number],
            self._client_id,
            self._boots.boot[number],
            revision=self._boots.revision[number],
            speed=self._speed,
            leapt=self._leapt,
            root=self._root,
        )

    def _job(self, tick: Tick, number: int) -> Envelope:
        return job_envelope(
            self.engine.fleet.name, self._messages.job(tick, number), root=self._root
        )

    def _encoder(self, number: int) -> FrameEncoder:
        unit = self._units[number]
        return FrameEncoder(
            unit.path,
            self._boots.boot[number],
            revision=self._boots.revision[number],
            columns=self.engine.columns,
            chips=unit.chips,
            instances=unit.instances,
        )

    def _check(self, limits: Limits) -> None:
        """Raise if a unit's frames or descriptors are longer than readers accept."""
        names = self.engine.layout.instances

        def text(number: int) -> int:
            return sum(map(len, names[self._units[number].instances]))

        def chips(number: int) -> int:
            return len(range(self.engine.layout.chips)[self._units[number].chips])

        numbers = range(len(self._units))
        longest, largest = max(numbers, key=text), max(numbers, key=chips)
        sizes = {"descriptor": (longest, len(self._describe(longest).payload))}
        if self._encoders:
            sizes["frame"] = (largest, len(self._encoders[largest].encode(0, 0)))
        for what, (number, size) in sizes.items():
            if size > limits.payload_bytes:
                raise ConfigError(
                    f"publish: the {what} of {self._units[number].path} has {size} bytes, over the"
                    f" limit of {limits.payload_bytes}; cover less by publish.granularity or"
                    " publish.block_ultraservers"
                )


class _Rotation:
    """A rotation of things evenly over time: the turn of each comes again within `within_s`."""

    def __init__(self, count: int, within_s: float) -> None:
        self._count = count
        self._within_s = within_s
        self._done = 0

    def due(self, elapsed_s: float) -> list[int]:
        """Return the numbers due since the last call, each at most once."""
        turns = int(elapsed_s * self._count / self._within_s)
        first = max(self._done, turns - self._count)
        self._done = turns
        return [number % self._count for number in range(first, turns)]
