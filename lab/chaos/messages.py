"""Messages of every class, wrong in structure, in bytes, or only in what they say."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from support.monitor.mutations import (
    CLUSTER,
    NUMBERS,
    ODD,
    TEXTS,
    TIMES,
    T,
    hostile_feed,
    mutated,
    originals,
)

from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


GOOD_CLUSTER = "uc1"
ODD_TEXTS = (
    "[@click=app.quit]x[/]",
    "[/nope]",
    "[link=file:///etc/passwd]",
    "\x1b]0;x\x07",
    "\x1b]52;c;eA==\x07",
    "\x9b2J",
    "\x90q\x9c",
    "\u202eabc\u202c",
    "\u2066x",
    "\u200d\ufe0f",
    "\ufeff",
    "\udc80",
    "\ud83d",
    "\U0001f600" * 64,
    "e" + "\u0301" * 200,
    "\r\n2026-01-05 forged",
    "{0.__class__}",
    "%n%n",
    "=cmd|' /C calc'!A0",
    "$(id)",
    "x" * 70_000,
    "\u2028",
    "\t\b\x7f",
)
TOPICS = (
    "",
    "/",
    "trnfleet",
    "trnfleet/v1",
    "trnfleet/v2/demo/node/a",
    "trnfleet/v1/demo/nodes/a",
    "trnfleet/v1//node/a",
    "trnfleet/v1/demo/node/\x1b[2J",
    "trnfleet/v1/demo/telemetry/\x9b",
    "trnfleet/v1/demo/event/a\nb",
    "trnfleet/v1/demo/job/[red]",
    "trnfleet/v1/demo/telemetry/a/b/c/d/e/f/g",
    "trnfleet/v1/demo/node/" + "x" * 60_000,
    "trnfleet/v1/other/node/uc1/us-0001",
    "trnfleet/v1/other/telemetry/uc1",
    "$SYS/broker/version",
    "a/b",
    "trnfleet/v1/demo/command/fleet",
    "trnfleet/v1/demo/reply/a/b",
    "trnfleet/v1/demo/publisher/a/b/c",
    "trnfleet/v1/demo/alert/0123",
    "trnfleet/v1/demo/telemetry/+",
    "trnfleet/v1/demo/telemetry/#",
)
_BYTES = (b"", b"\x00", b"{", b"null", b"[]", b'"x"', b"1e999", b"\xff\xfe", b"\xa0", b"[" * 50_000)


class Mutator:
    """A publisher of faulty messages about a cluster of its own."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.feed = hostile_feed()
        self._made = 0
        self._originals = self._every_class()

    def every_class(self) -> list[Envelope]:
        """Return good messages of every class."""
        return self._originals

    def batch(self, count: int, *, about_others: bool = False) -> list[Envelope]:
        """Return messages.

        With `about_others` they contradict the good publisher.
        """
        # The publisher itself changes now and then, and all that it says with it.
        self._contradict_itself()
        self._originals = self._every_class()
        kinds, weights = zip(*_KINDS, strict=True)
        made = [kind(self) for kind in self.random.choices(kinds, weights, k=count)]
        return (
            [as_the_good_one(each) if self.random.random() < 0.5 else each for each in made]
            if about_others
            else made
        )

    def _every_class(self) -> list[Envelope]:
        feed = self.feed
        made = originals(feed)
        # fmt: off
        watch = {"client": "w2", "state": "online", "boot": "b", "role": "watch", "since": T, "ts": T, "leads": True}  # noqa: E501
        command = {"id": "c1", "client": "c", "action": "rebirth", "target": CLUSTER, "args": {"a": 1}, "expires": T}  # noqa: E501
        gone = {"id": "s-2", "matchers": ['job="a"'], "starts": T, "until": T, "who": "w", "revision": 3, "withdrawn_until": T}  # noqa: E501
        spoken = {"fingerprint": "fedcba9876543210", "owner": "o", "at": T, "until": T, "revision": 2, "withdrawn_until": T}  # noqa: E501
        # fmt: on
        for topic_class, path, fields, retain in (
            (TopicClass.PUBLISHER, "w2", watch, True),
            (TopicClass.COMMAND, "fleet", command, False),
            (
                TopicClass.REPLY,
                "c/c1",
                {"id": "c1", "ok": True, "reason": "r", "result": {"n": 1}},
                False,
            ),
            (TopicClass.SILENCE, "s-2", gone, True),
            (TopicClass.ACK, "fedcba9876543210", spoken, True),
        ):
            payload = json.dumps({"v": 1, **fields}).encode()
            made.append(
                Envelope(build_topic(feed.fleet, topic_class, path), payload, 1, retain=retain)
            )
        return made

    def _contradict_itself(self) -> None:
        random, feed = self.random, self.feed
        self._made += 1
        changes: tuple[tuple[float, Callable[[], object]], ...] = (
            (
                0.3,
                lambda: setattr(
                    feed,
                    "seq",
                    feed.seq + random.choice((1, 63, 64, 1_000, 10**6, 10**6 + 1, 2**40)),
                ),
            ),
            (0.1, lambda: setattr(feed, "seq", 0)),
            (0.1, lambda: feed.restart(random.choice(("evil-1", "evil-2", f"evil-{self._made}")))),
            (0.1, lambda: setattr(feed, "revision", random.choice((0, 1, 2, 2**31)))),
            (
                0.1,
                lambda: setattr(
                    feed,
                    "epoch",
                    random.choice((T, "1990-01-01T00:00:00Z", "2100-01-01T00:00:00Z")),
                ),
            ),
            (0.1, lambda: setattr(feed, "speed", random.choice((1.0, 0.01, 10.0, 1_000.0)))),
            (0.1, lambda: setattr(feed, "period_s", random.choice((0.1, 1.0, 60.0, 86_400.0)))),
            (0.1, lambda: setattr(feed, "generation", feed.generation + 1)),
            (0.1, lambda: setattr(feed, "replay", not feed.replay)),
            (0.1, lambda: setattr(feed, "origin", random.choice(("simulated", "neuron")))),
            (
                0.1,
                lambda: setattr(
                    feed, "publisher", random.choice(("evil", "evil2", f"evil{self._made}"))
                ),
            ),
            (
                0.2,
                lambda: feed.states.update({"evil-job": random.choice(("running", "ended", "x"))}),
            ),
            (0.2, lambda: feed.jobs.update({f"evil-job{self._made % 50}": random.choice(_PLACES)})),
            (0.3, lambda: feed.scatter(random.randrange(1_000))),
        )
        for chance, change in changes:
            if random.random() < chance:
                change()


_PLACES: tuple[tuple[str, ...], ...] = (
    (f"{CLUSTER}/us-0001",),
    (),
    ("",),
    (f"{CLUSTER}/us-0001..us-9999",),
    (CLUSTER, CLUSTER),
    ("nowhere/at/all",),
)


def as_the_good_one(envelope: Envelope) -> Envelope:
    """Return a message with the good publisher's paths and name.

    Names have the same length, so that frames stay whole.
    """
    payload = envelope.payload
    for before, after in ((CLUSTER, GOOD_CLUSTER), ('"evil"', '"feed"'), ("evil-1", "boot-1")):
        payload = payload.replace(before.encode(), after.encode())
    topic = envelope.topic.replace(f"/{CLUSTER}/", f"/{GOOD_CLUSTER}/").replace(
        "publisher/evil", "publisher/feed"
    )
    return envelope._replace(topic=topic, payload=payload)


def _changed(mutator: Mutator) -> Envelope:
    return mutated(mutator.random.choice(mutator.every_class()), mutator.random)


def _as_it_is(mutator: Mutator) -> Envelope:
    return mutator.random.choice(mutator.every_class())


def _structural(mutator: Mutator) -> Envelope:
    """Drop, add, type or nest a field again, or give it an odd text."""
    random = mutator.random
    original = random.choice(mutator.every_class())
    if original.content_type == CONTENT_TYPE_CBOR:
        return _bytewise(mutator)
    data: Any = json.loads(original.payload)
    for _ in range(random.randint(1, 2)):
        at, key = _place(data, random)
        match random.randrange(6):
            case 0:
                at.pop(key)
            case 1 if isinstance(at, dict):
                at[random.choice(("v", "x", "", "id", "ts", "\x1b", "__proto__"))] = copy.deepcopy(
                    random.choice(ODD)
                )
            case 2:
                at[key] = [at[key]] * random.choice((1, 2, 100))
            case 3:
                at[key] = {"x": at[key]}
            case 4:
                at[key] = random.choice((*ODD_TEXTS, *TEXTS, *TIMES))
            case _:
                at[key] = copy.deepcopy(random.choice((*NUMBERS, str(at[key])[:100], *ODD)))
        if not data:
            break
    return original._replace(
        payload=json.dumps(data, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass")
    )


def _place(data: Any, random: Random) -> tuple[Any, Any]:
    """Return a container and a key of it, at any depth."""
    while True:
        key = random.choice(list(data)) if isinstance(data, dict) else random.randrange(len(data))
        inner = data[key]
        if not (isinstance(inner, (dict, list)) and inner and random.random() < 0.6):
            return data, key
        data = inner


def _bytewise(mutator: Mutator) -> Envelope:
    random = mutator.random
    original = random.choice(mutator.every_class())
    data = bytearray(original.payload)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = random.randbytes(random.choice((1, 8, 500)))
            case 2:
                del data[at : at + random.choice((1, 4, 50))]
            case 3 if data:
                data[at - 1] ^= 1 << random.randrange(8)
            case _:
                data[at:at] = data[at : at + 64]
    if random.random() < 0.1:
        data = bytearray(random.choice(_BYTES))
    kind = random.choice(
        (original.content_type,) * 8 + (CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, None, "text/html")
    )
    return original._replace(payload=bytes(data), content_type=kind)


def _foreign(mutator: Mutator) -> Envelope:
    return mutator.random.choice(mutator.every_class())._replace(
        topic=mutator.random.choice(TOPICS)
    )


def _misplaced(mutator: Mutator) -> Envelope:
    """Return a message on the topic of another."""
    random = mutator.random
    one = random.choice(mutator.every_class())
    other = random.choice(mutator.every_class())
    return one._replace(topic=other.topic, retain=random.choice((one.retain, other.retain)))


def _cleared(mutator: Mutator) -> Envelope:
    return mutator.random.choice(mutator.every_class())._replace(payload=b"")


def _new_name(mutator: Mutator) -> Envelope:
    """Return retained state under a new name.

    It adds up.
    """
    random = mutator.random
    feed = mutator.feed
    name = f"n-{random.randrange(10**9)}"
    if random.random() < 0.5:
        return feed.reservation(
            name, random.choice(_PLACES), state=random.choice(("active", "scheduled", "expired"))
        )
    payload = {
        "v": 1,
        "id": name,
        "matchers": ['rule=~".*"'],
        "starts": T,
        "until": "2026-01-06T00:00:00Z",
        "who": "w",
        "why": random.choice(ODD_TEXTS)[:900],
    }
    topic = build_topic(feed.fleet, TopicClass.SILENCE, name)
    return Envelope(topic, json.dumps(payload).encode(), 1, retain=True)


_KINDS: tuple[tuple[Callable[[Mutator], Envelope], float], ...] = (
    (_changed, 0.3),
    (_structural, 0.25),
    (_bytewise, 0.15),
    (_as_it_is, 0.14),
    (_misplaced, 0.06),
    (_foreign, 0.05),
    (_cleared, 0.04),
    (_new_name, 0.01),
)
