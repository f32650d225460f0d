"""A broker's misbehaviours, by name."""

from __future__ import annotations

import asyncio

from lab.chaos.fake_broker import MIB, Closed, Peer, Way, packet, publication

FLOOD = 20_000
"""Messages of a flood: some seconds of work for a reader."""
_TOPIC = b"trnfleet/v1/demo/event/fleet"
_ODD_TOPICS = (
    b"trnfleet/v1/demo/node/\x1b[2J",
    "trnfleet/v1/demo/node/\x9b2J".encode(),
    b"trnfleet/v1/demo/job/a\nb",
    b"trnfleet/v1/demo/node/" + b"x" * 60_000,
    b"trnfleet/v1/demo/node/\xff\xfe",
    b"trnfleet/v1/demo/\xed\xa0\x80/a",
    b"\x00",
    b"",
    b"/",
    "trnfleet/v1/demo/node/\u202e".encode(),
    b"trnfleet/v1/\x07/telemetry/a",
)


def _close(_peer: Peer, _kind: int, _body: bytes) -> None:
    raise Closed


def _nothing(_peer: Peer, _kind: int, _body: bytes) -> None:
    """Answer nothing."""


def _garbage(peer: Peer, _kind: int, _body: bytes) -> None:
    peer.send(peer.random.randbytes(peer.random.choice((1, 7, 500, 5_000))))


def _refuse(peer: Peer, _kind: int, _body: bytes) -> None:
    if peer.v5:
        peer.send(
            packet(
                0x20,
                bytes(
                    [
                        0,
                        peer.random.choice(
                            (0x80, 0x85, 0x86, 0x87, 0x88, 0x8A, 0x95, 0x97, 0x9F, 0xFF)
                        ),
                        0,
                    ]
                ),
            )
        )
    else:
        peer.send(packet(0x20, bytes([0, peer.random.choice((1, 2, 3, 4, 5, 77, 255))])))
    raise Closed


def _some_granted(peer: Peer, _kind: int, body: bytes) -> None:
    peer.suback(body, b"\x01" * (peer.granted(body) // 2))


def _none_granted(peer: Peer, _kind: int, body: bytes) -> None:
    peer.suback(body, (b"\x87" if peer.v5 else b"\x80") * peer.granted(body))


def _reasons(peer: Peer, _kind: int, body: bytes) -> None:
    peer.puback(body, reason=peer.random.choice((0x10, 0x80, 0x83, 0x87, 0x90, 0x97, 0x99, 0xEE)))


def _huge(peer: Peer) -> None:
    peer.send(packet(0x30, _TOPIC[:2] + b"x" * MIB, announced=256 * MIB))


async def _huge_whole(peer: Peer) -> None:
    peer.send(packet(0x30, len(_TOPIC).to_bytes(2) + _TOPIC + b"\x00", announced=32 * MIB))
    for _ in range(32):
        peer.send(b"x" * MIB)
        await peer.writer.drain()


def _truncated(peer: Peer) -> None:
    peer.send(packet(0x30, b"\xff\xff" + _TOPIC))
    peer.send(packet(0x32, b"\x00\x01a"))
    peer.send(packet(0x30, b"\x00"))


def _wrong_subscribe_id(peer: Peer, _kind: int, body: bytes) -> None:
    peer.suback(body, b"\x01" * peer.granted(body), of=7)


def _wrong_publish_id(peer: Peer, _kind: int, body: bytes) -> None:
    peer.puback(body, of=7)


def _fleet(peer: Peer, *, first: int = 0x30, times: int = 1) -> None:
    for each in peer.broker.fleet:
        peer.deliver(each, first=first, times=times)


def _odd_topics(peer: Peer) -> None:
    for topic in _ODD_TOPICS:
        peer.send(publication(topic, b"{}", v5=peer.v5))
    _fleet(peer)


def _alias(peer: Peer) -> None:
    """Use topic aliases beyond the client's limit, and an unset one."""
    peer.send(
        publication(_TOPIC, b"{}", v5=peer.v5, properties=b"\x23\xff\xff" if peer.v5 else b"")
    )
    peer.send(publication(b"", b"{}", v5=peer.v5, properties=b"\x23\x00\x09" if peer.v5 else b""))


def _small_packets(peer: Peer, _kind: int, _body: bytes) -> None:
    peer.accept(b"\x27" + (100).to_bytes(4) if peer.v5 else b"")


def _odd_properties(peer: Peer, _kind: int, _body: bytes) -> None:
    """Accept with odd limits or unknown properties.

    Limits are keep alive, receive maximum and topic alias maximum.
    """
    peer.accept(
        peer.random.choice(
            (
                b"\x13\x00\x01",
                b"\x21\x00\x00",
                b"\x21\x00\x01",
                b"\x22\xff\xff",
                b"\x7e\x01",
                b"\x24\x00\x25\x00",
            )
        )
        if peer.v5
        else b""
    )


def _wildcards(peer: Peer) -> None:
    for topic in (b"trnfleet/v1/demo/node/#", b"trnfleet/v1/+/telemetry/a", b"#", b"+"):
        peer.send(publication(topic, b"{}", v5=peer.v5, first=0x31))


async def _drip(peer: Peer, _kind: int, body: bytes) -> None:
    """Answer a byte at a time, then deliver the fleet so."""
    peer.suback(body, b"\x01" * peer.granted(body))
    data = b"".join(
        publication(each.topic.encode(), each.payload, v5=peer.v5) for each in peer.broker.fleet[:2]
    )
    for byte in data:
        peer.send(bytes([byte]))
        await peer.writer.drain()
        await asyncio.sleep(0.01)


async def _stop_reading(_peer: Peer, _kind: int, _body: bytes) -> None:
    await asyncio.sleep(3_600)


async def _flood(peer: Peer) -> None:
    for number in range(FLOOD):
        each = peer.broker.fleet[number % len(peer.broker.fleet)] if peer.broker.fleet else None
        topic = _TOPIC if each is None else each.topic.encode()
        peer.send(publication(topic, b"{}" if each is None else each.payload, v5=peer.v5))
        if number % 100 == 0:
            await peer.writer.drain()


def _out_of_turn(peer: Peer, _kind: int, _body: bytes) -> None:
    """Send packets forbidden to a broker, or too early, before CONNACK."""
    for data in (
        b"\x40\x02\x00\x01",
        b"\x50\x02\x00\x01",
        b"\xd0\x00",
        b"\x10\x00",
        b"\xc0\x00",
        b"\xf0\x00",
    )[:: peer.random.choice((1, -1))]:
        peer.send(data)
    peer.accept()


def _disconnects(peer: Peer) -> None:
    peer.send(
        packet(
            0xE0,
            bytes([peer.random.choice((0x81, 0x82, 0x8B, 0x8D, 0x8E, 0x93, 0x98, 0x9C, 0xA2)), 0])
            if peer.v5
            else b"",
        )
    )
    raise Closed


WAYS = (
    Way("silent", connect=_nothing),
    Way("garbage", connect=_garbage),
    Way("half a CONNACK", connect=lambda peer, _kind, _body: peer.send(b"\x20")),
    Way("refuses", connect=_refuse),
    Way("closes after CONNECT", connect=_close),
    Way("closes after SUBSCRIBE", subscribe=_close, publish=_close),
    Way("closes after PUBLISH", publish=_close),
    Way("half a SUBACK", subscribe=_some_granted),
    Way("refuses subscriptions", subscribe=_none_granted),
    Way("no SUBACK", subscribe=_nothing),
    Way("no PUBACK", publish=_nothing),
    Way("PUBACK with reasons", publish=_reasons),
    Way("announces 256 MB", then=_huge),
    Way("sends 32 MB", then=_huge_whole),
    Way("truncated packets", then=_truncated),
    Way("wrong identifiers", subscribe=_wrong_subscribe_id, publish=_wrong_publish_id),
    Way("duplicates", then=lambda peer: _fleet(peer, times=3)),
    Way("odd topics", then=_odd_topics),
    Way("topic alias out of range", then=_alias),
    Way("packets of 100 bytes", connect=_small_packets),
    Way("odd properties", connect=_odd_properties),
    Way("wildcards in PUBLISH", then=_wildcards),
    Way("retained everywhere", then=lambda peer: _fleet(peer, first=0x31)),
    Way("drip", subscribe=_drip),
    Way("stops reading", subscribe=_stop_reading, publish=_stop_reading),
    Way("flood", then=_flood),
    Way("out of turn", connect=_out_of_turn),
    Way("DISCONNECT", then=_disconnects),
    Way("no PINGRESP", ping=_nothing),
)
