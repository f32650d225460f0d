"""Faulty messages of every class: wrong values, types, keys, nesting, or bytes."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from support.monitor.feed import Feed
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

T = "2026-01-05T00:00:00Z"
PRINT = "0123456789abcdef"
CLUSTER = "uc9"
"""Where hostile publishers have their instances."""

NUMBERS = (
    0,
    -1,
    1,
    2,
    8,
    0.1,
    1e-6,
    5e-324,
    1e-300,
    1e6,
    1e12,
    1e18,
    1e19,
    1e30,
    1e300,
    1.7e308,
    -1e300,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    -(2**63) - 1,
    86_400,
    float("nan"),
    float("inf"),
    float("-inf"),
)
TIMES = (
    "soon",
    "",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "1970-01-01T00:00:00Z",
    "2199-12-31T23:59:59.999Z",
    "1969-12-31T23:59:59Z",
    "2262-04-11T23:47:16Z",
    "2026-01-05",
    "2026-01-05T00:00:00",
    "2026-W01-1T00:00:00Z",
    "2026-01-05T00:00:01.999999999Z",
    "2026-01-05T00:00:00+14:00",
)
TEXTS = (
    "",
    " ",
    "a",
    "x" * 256,
    "x" * 5_000,
    "../..",
    "a/b/c/d/e/f",
    "uc1/us-0001",
    f"{CLUSTER}/us-0001",
    "fleet",
    "[red]",
    "\x1b[2J",
    "\u202e",
    "\n",
    "\x00",
    "é",
    "us-0001..us-9999",
    "#",
    "+",
    "{value}",
    "%s",
)
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[[[]]]],
    {"a": {"b": {}}},
    [None],
    {"": 0},
    [1, "a", None],
)


def hostile_feed() -> Feed:
    """Return a publisher of a cluster of its own."""
    feed = Feed(
        [
            (f"{CLUSTER}/us-0001/trn2u-0001-0", "trn2u.48xlarge"),
            (f"{CLUSTER}/standalone/trn2-1", "trn2.48xlarge"),
        ]
    )
    feed.publisher = "evil"
    feed.boot = "evil-1"
    feed.jobs = {"evil-job": (f"{CLUSTER}/us-0001",)}
    feed.scatter()
    return feed


def originals(feed: Feed) -> list[Envelope]:
    """Return good messages of every class, with the publisher's next tick in both encodings."""

    def state(topic_class: TopicClass, name: str, **fields: Any) -> Envelope:
        payload = json.dumps({"v": 1, **fields}).encode()
        return Envelope(build_topic(feed.fleet, topic_class, name), payload, qos=1, retain=True)

    extension = {
        "id": "ext-1",
        "state": "payment-pending",
        "bought": T,
        "start": T,
        "end": "2026-01-09T00:00:00Z",
        "fee": "1.50",
    }
    spoken = {
        "severity": "critical",
        "target": CLUSTER,
        "summary": "s",
        "since": T,
        "fired": T,
        "watch": "w",
    }
    made = [
        *feed.announcements(),
        feed.reservation(
            "cr-evil", f"{CLUSTER}/us-0001", pay_by=T, extensions=[extension], launched=1
        ),
        state(
            TopicClass.ALERT,
            PRINT,
            fingerprint=PRINT,
            rule="r",
            state="firing",
            value=1.5,
            **spoken,
        ),
        state(
            TopicClass.ACK, PRINT, fingerprint=PRINT, owner="o", at=T, until="2026-01-06T00:00:00Z"
        ),
        state(
            TopicClass.SILENCE,
            "s-1",
            id="s-1",
            matchers=['job="a"'],
            starts=T,
            until="2026-01-06T00:00:00Z",
            who="w",
        ),
        feed.event(f"{CLUSTER}/us-0001", severity="critical"),
        feed.event(),
        *feed.telemetry(),
    ]
    feed.json = True
    made += feed.telemetry()[:2]
    feed.json = False
    return made


def mutated(original: Envelope, random: Random) -> Envelope:
    """Return a message with one to three changes; telemetry in CBOR has other bytes."""
    if original.content_type == CONTENT_TYPE_CBOR:
        payload = bytearray(original.payload)
        for _ in range(random.randint(1, 3)):
            # What says what a frame is stands in its first and last bytes.
            payload[random.choice((random.randrange(200), -1 - random.randrange(200)))] = (
                random.randrange(256)
            )
        return original._replace(payload=bytes(payload))
    data = json.loads(original.payload)
    for _ in range(random.randint(1, 3)):
        _change(data, random)
    retain = original.retain if random.random() < 0.95 else not original.retain
    return original._replace(payload=json.dumps(data).encode(), retain=retain)


def _change(data: dict[str, Any], random: Random) -> None:
    at: Any = data
    kept = [*_kept(data)]
    if kept and random.random() < 0.6:
        at, key = random.choice(kept)
        at[key] = random.choice(TIMES if isinstance(at[key], str) else NUMBERS)
        return
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and random.random() < 0.7:
            at = at[key]
            continue
        if random.random() < 0.08:
            del at[key]
        else:
            at[key] = _value(at[key], random)
        return


def _kept(at: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where numbers and times are; columns have too many to be of interest."""
    for key, value in list(at.items() if isinstance(at, dict) else enumerate(at)):
        if isinstance(value, (dict, list)):
            if key != "columns":
                yield from _kept(value)
        elif isinstance(value, (int, float)) or _is_time(value):
            yield at, key


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and value[4:5] == "-" and value.endswith("Z")


def _value(before: Any, random: Random) -> Any:
    """Return another value, mostly of the same kind: others are refused at once."""
    kind = random.random()
    if kind < 0.15:
        return copy.deepcopy(random.choice(ODD))
    if isinstance(before, (int, float)) or kind < 0.25:
        return random.choice(NUMBERS)
    if _is_time(before):
        return random.choice(TIMES)
    return random.choice((*TEXTS, random.choice(TIMES)))
