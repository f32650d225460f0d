"""A fault: its signature, its effect on a job, and its recovery. The rows are in `table`."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from trnfleet.domain.durations import DAY_S
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError


class FaultScope(enum.StrEnum):
    """Kinds of targets."""

    CHIP = "chip"
    LINK = "link"
    INSTANCE = "instance"
    RACK = "rack"
    ULTRASERVER = "ultraserver"
    CLUSTER = "cluster"
    PUBLISHER = "publisher"


class Links(enum.Enum):
    """Links that a fault can hit."""

    WITHIN_INSTANCE = "within the instance"
    BETWEEN_INSTANCES = "between instances"
    ALL = ""


class Effect(enum.StrEnum):
    """Effects of a fault, with the meaning of its magnitude.

    A table in `sim.faults.effects` carries out effects on the fleet, the publisher those on
    messages.
    """

    NONE = "none"
    CHIP_PACE = "% by which the chip is slower than its peers"
    COOLING = "times the chip's usual rise over the inlet's temperature"
    LINK_CAPACITY = "share of the link's bandwidth left"
    SPLIT = "share of the links' bandwidth between the racks left"
    EFA_PACE = "share of the instance's EFA bandwidth left"
    STORAGE_PACE = "share of the shared storage's bandwidth left"
    INLET = "degC on top of the inlet's temperature"
    POWER_CAP = "share of the chips' maximum power allowed"
    SILENT = "nothing is published"
    DELAY = "seconds"
    MESSAGES = "share of the messages"
    CONNECTION = "the connection is lost"


class Reaction(enum.StrEnum):
    """Reactions of the job; of an inference job only the replica is concerned."""

    NONE = "none"
    SLOW = "slows down"
    HANG = "hangs"
    CRASH = "fails"


class Recovery(enum.StrEnum):
    """Ways in which a fault ends."""

    ENDS = "ends by itself"
    REPAIR = "is repaired"
    RESTART_JOB = "the job is restarted"
    RELOAD = "the driver is reloaded"
    REBOOT = "the instance is rebooted"
    REPLACE = "the instance is replaced"


class Stages(NamedTuple):
    """Seconds of each step of a recovery, in order."""

    detect_s: float = 0.0
    """Time until it is noticed."""
    quarantine_s: float = 0.0
    """Time from then until nothing new is placed on the instance."""
    drain_s: float = 0.0
    """Time from then until the job has left it."""
    mend_s: float = 0.0
    """Repair, reload, reboot or replacement."""
    return_s: float = 0.0
    """Checks before it is used again."""

    @property
    def total_s(self) -> float:
        """From the fault to the return."""
        return sum(self)


class Count(NamedTuple):
    """Events added to a chip's counter by a fault."""

    metric: str
    at_once: int = 0
    per_s: float = 0.0


class Interruptions(NamedTuple):
    """Interruptions of Llama 3's training represented by a fault."""

    cause: str
    """Key of `LLAMA_3`."""
    number: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row."""

    name: str
    title: str
    scope: FaultScope
    cause: str
    effect: Effect = Effect.NONE
    magnitude: float = 0.0
    """Default magnitude, for scenarios and commands without one; its meaning is `effect`'s."""
    least: float = 0.0
    most: float = 0.0
    reaction: Reaction = Reaction.NONE
    recovery: Recovery = Recovery.ENDS
    stages: Stages = field(default_factory=Stages)
    drawn: tuple[float, float] | None = None
    """Magnitudes of random ones, log-normal: the median and the standard deviation of the
    logarithm; always `magnitude` if None."""
    lasts_s: float = 300.0
    """Default duration if it ends by itself, for scenarios and commands without one. The median of
    random ones."""
    counts: tuple[Count, ...] = ()
    health: tuple[str, ...] = ()
    """Bits of `health` set during the fault."""
    links: Links = Links.ALL
    """Links that it can hit."""
    hw_error: str = ""
    """NEURON_HW_ERR of the kernel's log, where the driver writes one."""
    action: str = ""
    """Action named by that line."""
    log: str = ""
    """Another line of the kernel's or the runtime's log. `{nd}` is the chip's number, `{direction}`
    a link's name, `{nodes}` an UltraServer's instances, `{split}` the instances of each rack."""
    nrt: int | None = None
    """NRT_STATUS with which executions end."""
    nrt_name: str = ""
    runtime_log: str = ""
    """The runtime's text with that status; without one, the job's own. `{nd}` is the chip's number.
    """
    is_cold: bool = False
    """Whether its job compiles its graphs again."""
    severity: Severity = Severity.WARNING
    is_logged: bool = True
    """Whether it has log lines; a straggler has none."""
    interruptions: tuple[Interruptions, ...] = ()
    """Source of its rate, if it interrupts jobs."""
    rate_per_device_day: float | None = None
    """Events a chip and day; None where it never comes by itself. That of a fault with
    interruptions is derived."""
    rate_source: str = ""

    @property
    def ends_by_itself(self) -> bool:
        """Whether it has a duration."""
        return self.recovery is Recovery.ENDS

    @property
    def can_repeat(self) -> bool:
        """Whether its cause may outlast its recovery, which changes no hardware."""
        return self.recovery in {Recovery.RELOAD, Recovery.REBOOT, Recovery.RESTART_JOB}

    @property
    def is_interruption(self) -> bool:
        """Whether it ends or stops a job."""
        return self.reaction in {Reaction.CRASH, Reaction.HANG}

    @property
    def needs_job(self) -> bool:
        """Whether only a job shows it, so that an idle chip cannot have it."""
        return self.is_interruption and not (self.health or self.log or self.hw_error)

    @property
    def has_detour(self) -> bool:
        """Whether its job restarts beside it once the detour is ready.

        The job runs during the repair.
        """
        return (
            self.effect is Effect.LINK_CAPACITY
            and self.reaction is Reaction.CRASH
            and self.recovery is Recovery.REPAIR
        )

    def mean_between_s(self, chips: int) -> float | None:
        """Return the mean seconds between faults on a fleet of that size.

        None if never random.
        """
        if not self.rate_per_device_day:
            return None
        return DAY_S / (self.rate_per_device_day * chips)

    @property
    def is_transport(self) -> bool:
        """Whether it hits messages and not the fleet."""
        return self.scope is FaultScope.PUBLISHER


def check_use(fault: Fault, lasts_s: float | None, magnitude: float | None) -> None:
    """Check a duration and a magnitude against the limits of a fault.

    Raises:
        ConfigError: it has none, or the value is out of its range; the message names the limit.
    """
    if lasts_s is not None and not 0 < lasts_s < float("inf"):
        raise ConfigError(f"duration {lasts_s!r} s: must be above 0")
    if magnitude is None:
        return
    if fault.most <= fault.least:
        raise ConfigError(f"{fault.name} has no magnitude")
    if not fault.least <= magnitude <= fault.most:
        raise ConfigError(
            f"magnitude {magnitude:g} of {fault.name}: must be {fault.least:g} to {fault.most:g}"
            f" ({fault.effect.value})"
        )
