"""The session with a broker: batches until quiet, and the user's name."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import pytest

from trnfleet.clock import ManualClock
from trnfleet.services.session import LONGEST_USER, BatchReader, user_name
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ONE = Envelope("trnfleet/v1/demo/event/-", b"{}")


class Busy:
    """A source that delivers a message every `every_s`, as time goes by, and then none."""

    def __init__(self, clock: ManualClock, every_s: Sequence[float]) -> None:
        self.status = LinkStatus(connected=True)
        self._clock = clock
        self._every_s = list(every_s)

    async def take(self) -> list[Envelope]:
        if not self._every_s:
            await self._clock.advance(1.0)
            raise TimeoutError
        await self._clock.advance(self._every_s.pop(0))
        return [ONE]

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask nobody."""


async def read(
    every_s: Sequence[float], *, limit_s: float, shorten: tuple[int, float] | None = None
) -> int:
    """Return the number of batches read.

    After the first `shorten[0]` of them the limit is brought forward.
    """
    clock = ManualClock()
    reader = BatchReader(Busy(clock, every_s), clock, limit_s=limit_s, quiet_s=0.5)
    count = 0
    while await reader.next():
        count += 1
        if shorten is not None and count == shorten[0]:
            reader.shorten(shorten[1])
    return count


async def test_batches_are_read_until_the_limit_or_until_none_comes() -> None:
    assert await read([], limit_s=10) == 0
    assert await read([0.1] * 5, limit_s=10) == 5
    assert await read([0.1] * 50, limit_s=1) == 10
    assert await read([0.1] * 50, limit_s=0) == 0


async def test_a_limit_is_brought_forward_and_never_put_off() -> None:
    assert await read([0.1] * 50, limit_s=4, shorten=(1, 0.35)) == 5
    assert await read([0.1] * 50, limit_s=1, shorten=(1, 3)) == 10


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("ops", "ops"),
        ("o.p-s_1@lab", "o.p-s_1@lab"),
        ("a\x1b[2J\u202eb\n\udcff", "a2Jb"),
        ("x" * 200, "x" * LONGEST_USER),
        ("\x1b", "nobody"),
    ],
)
def test_a_users_name_goes_out_without_what_a_terminal_could_act_upon(
    given: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user name from the environment has no control characters.

    It appears in the simulator's log and in alerts.
    """
    monkeypatch.setenv("LOGNAME", given)
    assert user_name("nobody") == name


@pytest.mark.parametrize("error", [OSError, KeyError])
def test_where_the_system_knows_no_name_there_is_the_default(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def getuser() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", getuser)
    assert user_name("") == ""
    assert user_name("somebody") == "somebody"
