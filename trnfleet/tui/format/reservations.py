"""Texts of reservations: state, countdowns, money and table lines.

Pure functions without a widget.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import DurationStyle, duration, mean_label
from trnfleet.domain.reservations.states import ENDED, BlockState, InterconnectStatus
from trnfleet.domain.severity import Severity
from trnfleet.monitor.reservations.table import IDLE_BELOW_PCT, Reservation
from trnfleet.monitor.store.averages import WINDOW_S
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import Parts, bar, fit, right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style


_ENDED = frozenset(state.value for state in ENDED) | {"unsupported"}
_WAITS = frozenset(
    {
        BlockState.SCHEDULED.value,
        BlockState.PAYMENT_PENDING.value,
        "pending",
        "assessing",
        "delayed",
    }
)
_DOUBTFUL = frozenset({BlockState.PAYMENT_PENDING.value, "delayed", "cancelling"})
PICKED = "◆"
"""Marks the selected reservation, and every node with an instance of it."""
_MOST_NAMES = 3
"""Instances named in a line."""
LAST_CALL_S = 1_800.0
"""Seconds before the first termination when a block can no longer be extended."""


def is_ended(reservation: Reservation) -> bool:
    """Return whether its state is final."""
    return reservation.message.state.value in _ENDED


def is_waiting(reservation: Reservation) -> bool:
    """Return whether it has not started yet."""
    return reservation.message.state.value in _WAITS


def is_impaired(reservation: Reservation) -> bool:
    """Return whether the interconnect between its instances is impaired."""
    return reservation.message.interconnect is InterconnectStatus.IMPAIRED


def severity(reservation: Reservation) -> Severity | None:
    """Return the urgency of its state.

    None if all is well, or its publisher is gone.
    """
    message = reservation.message
    if not reservation.is_current:
        return None
    if message.state.value == BlockState.UNAVAILABLE.value:
        return Severity.CRITICAL
    if is_impaired(reservation) or message.unavailable:
        return Severity.CRITICAL
    if reservation.is_near_end and (reservation.to_termination_s or 0.0) < LAST_CALL_S:
        return Severity.CRITICAL
    if reservation.is_near_end or reservation.is_idle:
        return Severity.WARNING
    return Severity.WARNING if message.state.value in _DOUBTFUL else None


def state_text(reservation: Reservation, util_pct: float | None = None) -> str:
    """Return its state as a sign and words; a problem replaces `active`.

    A question mark marks a state whose publisher is gone.

    Args:
        reservation: The reservation.
        util_pct: Its mean utilisation beside that. While it is still of instances that have just
            stopped, they are `idle now`.
    """
    message = reservation.message
    trouble = severity(reservation)
    state = plain(message.state.value, 20)
    if is_ended(reservation):
        return f"· {state}"
    if not reservation.is_current:
        return f"? {state}"
    if trouble is None:
        return f"{'○' if is_waiting(reservation) else '●'} {state}"
    word = state
    was_busy = util_pct is not None and util_pct > IDLE_BELOW_PCT
    if is_impaired(reservation):
        word = "impaired"
    elif message.unavailable and state == BlockState.ACTIVE.value:
        word = f"{message.unavailable} out"
    elif reservation.is_near_end:
        word = "terminating" if (reservation.to_termination_s or 0.0) < 0 else "ending"
        word += ", idle" if reservation.is_idle and not was_busy else ""
    elif reservation.is_idle:
        word = "idle now" if was_busy else "idle"
    return f"{theme.SEVERITY_GLYPH[trouble]} {word}"


def countdown(seconds: float) -> str:
    """Return the time left in at most seven cells: `12d 03h`, `2h 05m`, `9m 07s`.

    `ended` if it has passed.
    """
    # The last second is counted down to nothing.
    return "ended" if seconds < 0 else duration(math.ceil(seconds), DurationStyle.SHORT)


def until_text(reservation: Reservation) -> str:
    """Return the time until its start or its end."""
    if is_ended(reservation):
        return "ended"
    if is_waiting(reservation):
        return f"starts {countdown(reservation.to_start_s)}"
    if reservation.to_end_s is None:
        return "no end"
    return f"ends {countdown(reservation.to_end_s)}"


def termination_text(reservation: Reservation) -> str:
    """Return the time until its instances are terminated; empty if they are not."""
    seconds = reservation.to_termination_s
    if seconds is None or is_ended(reservation) or is_waiting(reservation):
        return ""
    return "now" if seconds < 0 else countdown(seconds)


def money(amount: Decimal | None, currency: str = "") -> str:
    """Return an amount with separators; `n/a` if unknown."""
    if amount is None:
        return "n/a"
    return f"{amount:,.2f}" + (f" {plain(currency, 3)}" if currency else "")


def fee_of(reservation: Reservation) -> Decimal | None:
    """Return its upfront fee, paid or due."""
    return None if reservation.message.fee is None else Decimal(reservation.message.fee)


def what_text(reservation: Reservation, width: int = sys.maxsize) -> str:
    """Return its capacity, such as `UltraServer` or `2 x trn2.48xlarge`.

    The family alone in little room.
    """
    message = reservation.message
    if message.ultraserver_type is not None:
        return "UltraServer"
    whole = f"{message.instances} x {plain(message.instance_type, 20)}"
    return whole if len(whole) <= width else whole.partition(".")[0]


def used_text(reservation: Reservation) -> str:
    """Return instances in use and reserved; a question mark if unknown."""
    if is_ended(reservation) or is_waiting(reservation):
        return f"-/{reservation.message.instances}"
    used = "?" if reservation.used is None else str(reservation.used)
    return f"{used}/{reservation.message.instances}"


def unused_texts(reservation: Reservation, silent: Sequence[str]) -> list[str]:
    """Return in words how many of its instances are not launched, or without telemetry.

    Args:
        reservation: The reservation.
        silent: Their ids or addresses, as far as these are known.
    """
    free = [f"{reservation.not_launched:,} not launched"] if reservation.not_launched else []
    if not reservation.unknown:
        return free
    names = ", ".join(plain(name, 80) for name in silent[:_MOST_NAMES])
    more = f" and {len(silent) - _MOST_NAMES:,} more" if len(silent) > _MOST_NAMES else ""
    named = f": {names}{more}" if names else ""
    return [*free, f"no telemetry of {reservation.unknown:,}{named}"]


def util_text(reservation: Reservation, util_pct: float | None, unit: str = " %") -> str:
    """Return its utilisation; empty before it begins and after it ends."""
    if is_ended(reservation) or is_waiting(reservation):
        return ""
    return "n/a" if util_pct is None else f"{util_pct:.1f}{unit}"


def short_id(text: str, width: int) -> str:
    """Return an id, shortened in the middle if too long: its end tells ids apart."""
    shown = plain(text, 64)
    return shown if len(shown) <= width else shown[:3] + "…" + shown[len(shown) - width + 4 :]


class ReservationPlan(NamedTuple):
    """Cells of the columns at a width, without the gap behind each; 0 without room."""

    state: int
    id: int
    what: int
    used: int
    bar: int
    util: int
    job: int
    until: int
    terminates: int
    idle: int
    fee: int
    interconnect: int
    zone: int
    extend: int
    gap: int
    """Cells between columns."""

    @staticmethod
    def for_width(width: int) -> ReservationPlan:
        """Return the columns for a width in cells."""
        plan = ReservationPlan(17, 9, 11, 5, 0, 6, 0, 14, 0, 9, 0, 0, 0, 0, 1)
        for least, change in (
            (92, {"id": 20}),
            (103, {"terminates": 10}),
            (119, {"job": 16}),
            (132, {"fee": 12}),
            (142, {"gap": 2}),
            (148, {"what": 17}),
            (163, {"bar": 10, "idle": 13}),
            (177, {"interconnect": 12}),
            (191, {"zone": 12}),
            (213, {"extend": 22}),
            (229, {"job": 32}),
        ):
            if width >= least:
                plan = plan._replace(**change)
        return plan


def head(width: int, mean_s: float = WINDOW_S) -> Parts:
    """Return the columns' titles.

    Args:
        width: Cells.
        mean_s: Seconds averaged for utilisation. 0 for present values.
    """
    plan = ReservationPlan.for_width(width)
    titles = [
        fit("state", plan.state),
        fit("id", plan.id),
        fit("capacity", plan.what),
        right("used", plan.used),
        (
            right(f"util, {mean_label(mean_s)}", plan.bar + 1 + plan.util)
            if plan.bar
            else right("util", plan.util)
        ),
        fit("job", plan.job),
        fit("ends", plan.until),
        right("stops in", plan.terminates),
        right("idle, $/h", plan.idle),
        right("fee, $", plan.fee),
        fit("EC2 links", plan.interconnect),
        fit("zone", plan.zone),
        fit("extension", plan.extend),
    ]
    return [(" " + (" " * plan.gap).join(title for title in titles if title), theme.HEAD)]


def row(
    reservation: Reservation,
    plan: ReservationPlan,
    util_pct: float | None = None,
    worst: Severity | None = None,
    jobs: str = "",
    *,
    selected: bool,
    picked: bool,
) -> Parts:
    """Return one reservation's line.

    Args:
        reservation: The reservation.
        plan: The columns.
        util_pct: Its mean utilisation over the last seconds; None where it is not known.
        worst: Worst severity of the unhandled alerts of its instances; None for none.
        jobs: The jobs on its instances.
        selected: Whether the cursor is on it.
        picked: Whether it is highlighted in every view.
    """
    message = reservation.message
    ended = is_ended(reservation) or not reservation.is_current
    body: Style = theme.SELECTED if selected else theme.GHOST if ended else theme.BASE
    quiet: Style = theme.SELECTED_QUIET if selected else theme.GHOST if ended else theme.QUIET
    state = state_text(reservation, util_pct)
    trouble = severity(reservation)
    if worst is not None and not ended:
        state = f"{fit(state, plan.state - 2)} {theme.SEVERITY_GLYPH[worst]}"
        trouble = worst if trouble is None else min(trouble, worst)
    alert = body if trouble is None or selected else theme.SEVERITY_STYLE[trouble]
    idle = reservation.idle_per_h
    costs = idle is not None and idle > 0
    gap = " " * plan.gap
    parts: Parts = [
        (PICKED if picked else ">" if selected else " ", body),
        (fit(state, plan.state) + gap, alert),
        (fit(short_id(message.id, plan.id), plan.id) + gap, body),
        (fit(what_text(reservation, plan.what), plan.what) + gap, body),
        (right(used_text(reservation), plan.used) + gap, body),
    ]
    if plan.bar:
        filled = () if util_pct is None or ended else bar(util_pct / 100.0, plan.bar)
        parts += [(text, body if selected else style) for text, style in filled]
        parts.append((" " * (1 if filled else plan.bar + 1), quiet))
    shown = util_text(reservation, util_pct, "%")
    near = (
        theme.SEVERITY_STYLE[Severity.WARNING] if reservation.is_near_end and not selected else body
    )
    parts.append((right(shown, plan.util) + gap, body))
    if plan.job:
        parts.append((fit(jobs, plan.job) + gap, body))
    parts.append((fit(until_text(reservation), plan.until) + gap, near))
    if plan.terminates:
        parts.append((right(termination_text(reservation), plan.terminates) + gap, near))
    money_style = theme.SEVERITY_STYLE[Severity.WARNING] if costs and not selected else quiet
    parts.append((right("" if idle is None else money(idle), plan.idle) + gap, money_style))
    if plan.fee:
        parts.append((right(money(fee_of(reservation)), plan.fee) + gap, quiet))
    if plan.interconnect:
        status = message.interconnect
        is_bad = status is InterconnectStatus.IMPAIRED and not selected
        style = theme.SEVERITY_STYLE[Severity.CRITICAL] if is_bad else quiet
        parts.append((fit("" if status is None else status.value, plan.interconnect) + gap, style))
    if plan.zone:
        parts.append((fit(plain(message.zone), plan.zone) + gap, quiet))
    if plan.extend:
        parts.append((fit(extension_text(reservation), plan.extend), quiet))
    return parts


def extension_text(reservation: Reservation) -> str:
    """Return whether it can be extended now."""
    if reservation.can_extend:
        return "can be extended"
    return f"no: {plain(reservation.why_not, 40)}" if not is_ended(reservation) else ""
