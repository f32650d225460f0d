"""The connections of a relay to its top broker, needed or not."""

from __future__ import annotations

from trnfleet.services.relay.role import TopLinks
from trnfleet.wire.ports import LinkStatus


class FakeLink:
    """A connection with a count of hurried attempts."""

    def __init__(self, *, connected: bool = True) -> None:
        self.status = LinkStatus(connected=connected, connects=int(connected))
        self.hurries = 0

    def hurry(self) -> None:
        self.hurries += 1


def test_a_relay_that_may_not_read_commands_takes_part_all_the_same() -> None:
    """A refused command connection does not delay the others, and is hurried with them."""
    publisher = FakeLink()
    presences = FakeLink()
    commands = FakeLink(connected=False)
    commands.status.last_error = "not authorised"
    links = TopLinks(publisher, presences, others=(commands,))
    first = links.look()
    assert (first.is_up, first.connects) == (True, 2)
    publisher.status.connects += 1
    assert links.look().connects == 3
    assert commands.hurries == 2
    commands.status.connected = True
    commands.status.connects = 1
    assert links.look().connects == 3
    assert publisher.hurries == 3
    presences.status.connected = False
    assert not links.look().is_up
