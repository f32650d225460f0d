from __future__ import annotations

import pytest
from support.monitor.rules import alert_of

from trnfleet.domain.alerts.matchers import parse_matchers
from trnfleet.domain.alerts.reach import Known, preview
from trnfleet.domain.alerts.silences import Ack, Silence, Span, span_at
from trnfleet.domain.alerts.status import AlertState

S = 1_000_000_000


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (9, Span.TO_COME),
        (10, Span.ACTIVE),
        (11, Span.ACTIVE),
        (19, Span.ACTIVE),
        (20, Span.OVER),
        (21, Span.OVER),
    ],
)
def test_a_span_has_its_start_and_not_its_end(now: int, expected: Span) -> None:
    """`[starts, ends)`: one function for all spans, at both ends and one tick either side."""
    silence = Silence("s", parse_matchers(["a=b"]), 10, 20, "me", "")
    ack = Ack("f", "me", "", 10, 20)

    assert span_at(now, 10, 20) is silence.span(now) is ack.span(now) is expected


@pytest.mark.parametrize("now", [9, 10, 11])
def test_an_empty_span_is_never_active(now: int) -> None:
    """A span that ends at its start is never active."""
    assert span_at(now, 10, 10) is not Span.ACTIVE


def test_a_preview_counts_what_would_be_hidden() -> None:
    """Matching firing and pending alerts are counted; firing ones are the examples.

    Resolved alerts are left out.
    """
    alerts = [
        alert_of("hot", f"uc1/us-0001/trn2u-0001-0/chip0{number}", state=state, severity=severity)
        for number, (state, severity) in enumerate(
            [
                (AlertState.FIRING, "critical"),
                (AlertState.FIRING, "warning"),
                (AlertState.PENDING, "critical"),
                (AlertState.RESOLVED, "critical"),
            ]
        )
    ]
    alerts.append(alert_of("cold", "uc2/us-0001/trn2u-0001-0/chip00", state=AlertState.FIRING))

    known = Known("demo", (), alerts=alerts)
    seen = preview(parse_matchers(["cluster=uc1"]), known, most=1)

    assert (seen.firing, seen.pending, seen.critical) == (2, 1, 1)
    assert seen.examples == (alerts[0],)
    only_pending = preview(parse_matchers([f"chip={alerts[2].target}"]), known)
    assert only_pending.examples == (alerts[2],)
