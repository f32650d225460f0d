"""Signals for rules, by scope.

Rule files call each a `figure`, and so do the class and the table here.

Metrics come from the metric table. The monitor provides the values; with this table rule files are
validated without one.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import Level
from trnfleet.domain.hardware.catalogue import lane_names
from trnfleet.domain.hardware.topology import DIRECTIONS
from trnfleet.domain.metrics import (
    BY_NAME,
    CHIP_METRICS,
    HEALTH_BITS,
    INSTANCE_METRICS,
    JOB_FIGURES,
    Kind,
    Provider,
    without_unit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class Scope(enum.StrEnum):
    """Kind of a rule's targets."""

    CHIP = "chip"
    CORE = "core"
    LINK = "link"
    INSTANCE = "instance"
    ULTRASERVER = "ultraserver"
    JOB = "job"
    RESERVATION = "reservation"
    CAP = "cap"
    PUBLISHER = "publisher"
    PIPELINE = "pipeline"


LEVEL_OF: Mapping[Scope, Level] = MappingProxyType(
    {
        Scope.CHIP: Level.CHIP,
        Scope.CORE: Level.CHIP,
        Scope.LINK: Level.CHIP,
        Scope.INSTANCE: Level.INSTANCE,
        Scope.ULTRASERVER: Level.ULTRASERVER,
    }
)
"""Level whose rows have the figures of a scope with addresses; other scopes have names."""

LANES: Mapping[Scope, tuple[str, ...]] = MappingProxyType(
    {Scope.CORE: BY_NAME["nc_util_pct"].lanes, Scope.LINK: DIRECTIONS}
)
"""Lanes of scopes below the chip, in the order of the metrics' lanes. A chip's layout has the names
of its link lanes."""


_CAPITALS = {
    word.lower(): word
    for word in (
        "ECC",
        "EFA",
        "HBM",
        "KV",
        "MFU",
        "NC",
        "SRAM",
        "TFLOPS",
        "TPOT",
        "TTFT",
        "vCPU",
        "Z",
    )
}
LINKS_UP = "links_up"
"""Bit mask with the names of a chip's link lanes as its bits."""
_MADE_OF = {
    "hbm_traffic_bytes_per_s": ("hbm_read_bytes_per_s", "hbm_write_bytes_per_s"),
    "hbm_bw_util_pct": ("hbm_read_bytes_per_s", "hbm_write_bytes_per_s"),
    "hbm_used_pct": ("hbm_used_bytes",),
    "mfu_pct": ("tflops",),
    "tflops_per_w": ("tflops", "power_w"),
    "power_share_pct": ("power_w",),
    "links_down": (LINKS_UP,),
    "link_up": (LINKS_UP,),
    "z_links_down": (LINKS_UP,),
}
"""Metrics of derived figures."""


class Form(enum.StrEnum):
    """Kind of a figure's values."""

    NUMBER = "number"
    COUNTER = "counter"
    TEXT = "text"
    BITS = "bits"


class Figure(NamedTuple):
    """A figure of a scope."""

    name: str
    form: Form
    unit: str
    help: str
    values: tuple[str, ...] = ()
    """Names of a bit mask's bits, bit 0 first. For `links_up` the names of schema version 1."""
    flag: tuple[str, str] | None = None
    """Words for 0 and for 1, if the figure has only these values."""
    is_of_job: bool = False
    """Whether only messages about jobs tell it."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it is made of; empty for other figures."""
        return (self.name,) if self.name in BY_NAME else _MADE_OF.get(self.name, ())

    @property
    def source(self) -> Provider:
        """Provider of its values besides simulators."""
        if any(BY_NAME[name].source is Provider.OTHERS for name in self.metrics):
            return Provider.OTHERS
        return Provider.JOB if self.is_of_job else Provider.HOST

    @property
    def words(self) -> str:
        """The name as people read it, without its unit: `link tx`, `HBM used`."""
        return " ".join(
            _CAPITALS.get(word, word) for word in without_unit(self.name, self.unit).split()
        )

    @property
    def bit_names(self) -> tuple[str, ...]:
        """Names of a bit mask's bits; of `links_up` all link lanes of the hardware catalogue."""
        return lane_names() if self.name == LINKS_UP else self.values


def _of_metric(name: str) -> Figure:
    metric = BY_NAME[name]
    form = {Kind.GAUGE: Form.NUMBER, Kind.COUNTER: Form.COUNTER, Kind.BITMASK: Form.BITS}[
        metric.kind
    ]
    values = {"health": HEALTH_BITS, LINKS_UP: DIRECTIONS}.get(name, ())
    return Figure(name, form, metric.unit, metric.help, values)


def _number(name: str, unit: str, text: str) -> Figure:
    return Figure(name, Form.NUMBER, unit, text)


def _flag(name: str, is_not: str, is_so: str, text: str) -> Figure:
    return Figure(name, Form.NUMBER, "", text, flag=(is_not, is_so))


def _job_number(name: str, text: str) -> Figure:
    """Return a figure of a job's message; its name ends in `_s` for a time."""
    is_time = name.endswith("_s") and not name.endswith("_per_s")
    return _number(name, "s" if is_time else "", text)


_CHIPS = tuple(_of_metric(metric.name) for metric in CHIP_METRICS)
_HOSTS = tuple(_of_metric(metric.name) for metric in INSTANCE_METRICS)
_DERIVED = (
    _number(
        "hbm_traffic_bytes_per_s",
        "bytes/s",
        "High-bandwidth memory read and write rate together",
    ),
    _number(
        "hbm_bw_util_pct",
        "%",
        "HBM traffic as a share of the catalogue's peak bandwidth",
    ),
    _number("hbm_used_pct", "%", "High-bandwidth memory in use as a share of the total"),
    _number("mfu_pct", "%", "Achieved FLOP/s as a share of the catalogue's dense BF16 peak"),
    _number("tflops_per_w", "TFLOP/s/W", "Achieved FLOP/s for each watt of the chips"),
    _number(
        "power_share_pct", "%", "Power of the chips as a share of their maximum in the catalogue"
    ),
    _number(
        "links_down",
        "",
        "NeuronLinks that should be up and are not; both ends of a link count",
    ),
)
JOB_SLOWDOWN = "job_slowdown"
_OF_JOB = _number(
    JOB_SLOWDOWN,
    "",
    "step_time_s over ideal_step_s of the chip's job; nothing without the latter",
)._replace(is_of_job=True)
CLAIMED_STATES = ("unknown", "idle", "running")
"""States of a job without a message: nothing is known of its chips, all are idle, one is active."""
JOB_PREPARES = "job_prepares"
PREPARING = ("starting", "compiling", "loading", "checkpointing")
"""States in which a job may execute nothing for long."""
_PREPARES = _flag(
    JOB_PREPARES,
    "job not starting or saving",
    "job starting or saving",
    f"1 while the chip's job is {', '.join(PREPARING[:-1])} or {PREPARING[-1]}, else 0, also where"
    " no job is known",
)
RECENT_GOODPUT = "recent_goodput_pct"
_EVENTS = Figure(
    "events",
    Form.COUNTER,
    "events",
    "Events of some names about it or anything below it",
)
_GROUPED = tuple(figure for figure in _CHIPS if figure.form is not Form.BITS)

_TABLE: dict[Scope, tuple[Figure, ...]] = {
    Scope.CHIP: (*_CHIPS, *_DERIVED, _OF_JOB, _PREPARES, _EVENTS),
    Scope.CORE: (_of_metric("nc_util_pct"),),
    Scope.LINK: (
        _of_metric("link_tx_bytes_per_s"),
        _of_metric("link_rx_bytes_per_s"),
        _flag(
            "link_up",
            "link down",
            "link up",
            "1 where the link is up, 0 where it is down; nothing where the chip has no such link",
        ),
    ),
    Scope.INSTANCE: (*_CHIPS, *_DERIVED, *_HOSTS, _EVENTS),
    Scope.ULTRASERVER: (
        *_CHIPS,
        *_DERIVED,
        *_HOSTS,
        _number(
            "z_links_down",
            "",
            "NeuronLinks between its instances that are down; both ends of a link count",
        ),
        _EVENTS,
    ),
    # Only messages about a job say which chips are its own.
    Scope.JOB: tuple(
        figure._replace(is_of_job=True)
        for figure in (
            Figure(
                "state",
                Form.TEXT,
                "",
                "What the job is doing, such as running, checkpointing, hung or failed",
            ),
            Figure("kind", Form.TEXT, "", "Kind of the job, such as training or inference"),
            *(_job_number(name, text) for name, text in JOB_FIGURES.items()),
            _number(
                RECENT_GOODPUT,
                "%",
                "Productive share of its observed paid time in the last 30 min; nothing before",
            ),
            *_GROUPED,
            *_HOSTS,
        )
    ),
    Scope.RESERVATION: (
        Figure(
            "state", Form.TEXT, "", "State that EC2 gives it, such as active or payment-pending"
        ),
        Figure(
            "interconnect",
            Form.TEXT,
            "",
            "Status of the links of an UltraServer's block: ok, impaired, insufficient-data",
        ),
        _number("util_pct", "%", "Mean NeuronCore utilisation of its live instances"),
        _number(
            "used_pct",
            "%",
            "Its busy instances as a share of its known ones",
        ),
        _number("idle_usd_per_h", "", "Cost of its idle instances an hour, if it is in USD"),
        _number("ends_in_s", "s", "Seconds to its end"),
        _number("terminates_in_s", "s", "Seconds until EC2 begins to terminate its instances"),
        _number("pays_in_s", "s", "Seconds until a payment that is pending fails"),
        _number("unavailable", "", "Instances that a failed system status check keeps from use"),
    ),
    Scope.CAP: (
        _number("cap_used_pct", "%", "Power of the chips of a capped place, 10 s mean, of the cap"),
    ),
    Scope.PUBLISHER: (
        Figure("state", Form.TEXT, "", "online, or offline by its last will or goodbye"),
        _number(
            "silent_s",
            "s",
            "Seconds for which nothing has come of it although it is online; 0 up to three periods,"
            " and while nothing can be heard",
        ),
        _number("messages_per_s", "", "Its telemetry messages a wall second"),
        _number("lag_s", "s", "Its largest lag in the last seconds in which it was heard"),
        _number(
            "clock_skew_s",
            "s",
            "By how much its clock differs from ours beyond the usual way to here; never negative",
        ),
        _number(
            "contested", "", "Paths that two publishers describe at once; the target names both"
        ),
    ),
    Scope.PIPELINE: (
        _number("lag_s", "s", "Wall seconds from source to here, as far as clocks tell"),
        _number(
            "clock_skew_s",
            "s",
            "By how much the most wrong clock of a source differs from ours; never negative,"
            " without late_s",
        ),
        _number(
            "late_s",
            "s",
            "By how much the latest telemetry is behind the wall clock; 0 up to a minute, which"
            " is lag",
        ),
        _number("messages_per_s", "", "Telemetry messages a wall second"),
        _number(
            "unheard_s",
            "s",
            "Wall seconds for which nothing could be heard: no connection, one of several missing,"
            " or one over which nothing comes at all",
        ),
        _flag(
            "withholds_retained",
            "broker sends retained messages",
            "broker withholds retained messages",
            "1 where the broker gives retained messages to no subscription with wildcards, else 0",
        ),
        _flag(
            "recording_stopped",
            "recording",
            "recording stopped",
            "1 where what comes is not recorded any more, such as on a full disk, else 0",
        ),
        _number(
            "overloaded_s",
            "s",
            "Wall seconds for which most telemetry has been late here, or some was left out",
        ),
        *(
            Figure(name, Form.COUNTER, "", text)
            for name, text in (
                (
                    "lost",
                    (
                        "Ticks of a topic that never came, but for those of a time in which nothing"
                        " could be heard"
                    ),
                ),
                ("shed", "Telemetry that was left out here for newer messages of its topic"),
                ("late", "Messages that came after a newer one of their topic"),
                ("duplicates", "Messages that came twice"),
                ("undescribed", "Telemetry for which no descriptor was known"),
                ("undecodable", "Payloads or topics that are not valid in the protocol"),
                ("misplaced", "Payloads whose identity is not their topic's"),
                ("rejected", "Messages that were refused because a limit was reached"),
                (
                    "dropped",
                    "Messages that were dropped before they were read: queue full, or too large",
                ),
            )
        ),
    ),
}

FIGURES: Mapping[Scope, Mapping[str, Figure]] = MappingProxyType(
    {
        scope: MappingProxyType({figure.name: figure for figure in rows})
        for scope, rows in _TABLE.items()
    }
)
"""The figures of every scope by name."""
PIPELINE_NAME = "pipeline"
"""Name of the one target of the scope pipeline."""
