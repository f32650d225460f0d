"""Publishers by their boots, and their presence by their own messages and last wills."""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.monitor.copies import copied
from trnfleet.monitor.pipeline.traffic import PublisherTraffic
from trnfleet.monitor.room import Room
from trnfleet.monitor.slices import finish
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trnfleet.monitor.slices import Slices

SLICE = 2_048
"""Boots that are looked through in one slice: 2 ms."""


@dataclass(slots=True, eq=False)
class PublisherState:
    """One boot of a publisher: a last will is about the boot that left it."""

    number: int
    client: str
    online: bool = True
    """The state in its own last message."""
    announced: bool = False
    """Whether the publisher has announced this boot; else only a descriptor names it."""
    described: bool = False
    """Whether a descriptor has named it."""


class KeptBoots(NamedTuple):
    """The boots that are kept with the next layout."""

    boots: dict[tuple[str, str], PublisherState]
    """By client and boot."""
    numbers: dict[tuple[str, str], int]
    announced: dict[str, list[PublisherState]]
    nameless: OrderedDict[tuple[str, str], None]
    room: Room
    undescribed: Room


class Renumbering(NamedTuple):
    """What has become of numbers, each at its former place; what is gone has that of nothing known."""

    boots: NDArray[np.int32]
    """Numbers of boots; the last is for -1."""
    rows: NDArray[np.int64]
    """Rows of clients in the traffic."""


class Publishers:
    """The publishers of a fleet.

    A publisher of many instances gives one that boots again a boot id of its own, and announces only its own boot. A boot
    that is not announced is therefore online while its client is.

    Presences come before descriptors where hosts are joined, so that boots that no descriptor has named may take all room there is. Where it is
    full, one that a descriptor names takes the place of the oldest of them: who makes up names and describes nothing keeps out
    none that describes instances, which are few because their instances are counted.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._most, self._most_undescribed = limits.publishers, limits.undescribed_publishers
        self._boots: dict[tuple[str, str], PublisherState] = {}
        self._announced: dict[str, list[PublisherState]] = {}
        """Each client's announced boots."""
        self._online: dict[str, list[PublisherState]] = {}
        """Those of them that are online, as a rule one or none, for each client that has announced itself."""
        self._room = Room(self._most)
        self._undescribed = Room(self._most_undescribed)
        self._free: list[int] = []
        """Numbers of boots that are forgotten, which are given to the next ones."""
        self._nameless: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Boots that no descriptor has named, the oldest first. Of a plain dict, to take the first of many takes as long as all that
        was taken before."""
        self._presence: NDArray[np.bool_] | None = None
        self._clients: dict[str, bool] | None = None
        self._rows: NDArray[np.int64] | None = None
        self._names: dict[int, str] | None = None
        self._boots_online: set[str] | None = None
        self.traffic = PublisherTraffic()
        """What comes of each client; it has a row for each that is known."""

    def __len__(self) -> int:
        """Return the number of boots."""
        return len(self._boots)

    @property
    def _numbers(self) -> int:
        """How many numbers are given out, to boots or to nobody."""
        return len(self._boots) + len(self._free)

    def find(self, client: str, boot: str) -> PublisherState | None:
        """Return a boot that is known."""
        return self._boots.get((client, boot))

    def refusal(
        self, client: str, boot: str, *, described: bool = False, former_boot: str = ""
    ) -> str | None:
        """Return why there is no room for a boot, or None where there is.

        Args:
            client: The publisher's name.
            boot: Id of the boot.
            described: Whether a descriptor names it.
            former_boot: The boot that the new one follows.
        """
        if (client, boot) in self._boots or self._replaced(client, former_boot) is not None:
            return None
        why = self._room.refusal(client, 1, "publishers")
        if described:
            return None if self._is_full_of_names else why
        return why or self._undescribed.refusal(client, 1, "publishers that describe nothing")

    def number(
        self, client: str, boot: str, *, described: bool = False, former_boot: str = ""
    ) -> PublisherState:
        """Return a boot, known or new, for which there is room.

        Args:
            client: The publisher's name.
            boot: Id of the boot.
            described: Whether a descriptor names it.
            former_boot: The boot that the new one follows; it is forgotten unless it was announced.
        """
        state = self._boots.get((client, boot))
        if state is None:
            state = self._replaced(client, former_boot)
            if state is not None:
                # Instances that boot again and again must not use numbers up.
                del self._boots[client, former_boot]
                self._nameless.pop((client, former_boot), None)
            else:
                if self._is_full_of_names:
                    self._forget_oldest()
                number = self._free.pop() if self._free else len(self._boots)
                state = PublisherState(number, client)
                self.traffic.add(client)
                self._rows = self._names = None
                self._room.change(client, 1)
                self._undescribed.change(client, 1)
            self._boots[client, boot] = state
            if not state.described:
                self._nameless[client, boot] = None
            self._note_presence(client, [state])
        if described and not state.described:
            state.described = True
            self._nameless.pop((client, boot), None)
            self._undescribed.change(client, -1)
        return state

    @property
    def _is_full_of_names(self) -> bool:
        """Whether there is no room left, and a part of it has boots that no descriptor has named."""
        return bool(self._nameless) and self._room.used >= self._room.most

    def _forget_oldest(self) -> None:
        """Forget the oldest boot that no descriptor has named."""
        self._forget(next(iter(self._nameless)))

    def _forget(self, key: tuple[str, str], numbers: NDArray[np.int32] | None = None) -> None:
        """Forget a boot that no descriptor names; its number is the next one's.

        Args:
            key: Its client and boot.
            numbers: What has become of numbers, in which its own is noted.
        """
        del self._nameless[key]
        client, _ = key
        state = self._boots.pop(key)
        self._room.change(client, -1)
        self._undescribed.change(client, -1)
        left = [each for each in self._announced.get(client, ()) if each is not state]
        if left:
            self._announced[client] = left
            self._online[client] = [
                each for each in self._online.get(client, ()) if each is not state
            ]
        else:
            self._announced.pop(client, None)
            self._online.pop(client, None)
        self._free.append(state.number)
        if numbers is not None:
            numbers[state.number] = -1
        self._rows = self._names = None
        self._note_presence(client, [] if self._room.of(client) else [state])

    def _replaced(self, client: str, former_boot: str) -> PublisherState | None:
        """Return the boot whose number the next one takes; None where it was announced."""
        former = self._boots.get((client, former_boot)) if former_boot else None
        return None if former is None or former.announced else former

    def announce(self, state: PublisherState, *, online: bool) -> bool:
        """Set the announced presence of a boot; return whether it is its first announcement."""
        is_first = not state.announced
        if is_first:
            state.announced = True
            self._announced.setdefault(state.client, []).append(state)
        others = [each for each in self._online.get(state.client, ()) if each is not state]
        if online:
            # A client id is connected once at a broker: where a new boot is online, the former ones are gone.
            for other in others:
                other.online = False
            others = [state]
        state.online = online
        self._online[state.client] = others
        self._note_presence(state.client, self._announced.get(state.client, []))
        return is_first

    def has_announced(self, client: str) -> bool:
        """Return whether a client has announced a boot: a publisher of telemetry, not a watch."""
        return client in self._announced

    def clear(self, client: str) -> None:
        """Forget the presence of a client: nothing is offline because of it."""
        announced = self._announced.get(client, ())
        for state in announced:
            state.online = True
        if announced:
            self._online[client] = list(announced)
        self._forget_figures()

    def retire(self, client: str) -> None:
        """Let a client be gone whose message was cleared because of that; `keep` forgets it."""
        for state in self._announced.get(client, ()):
            state.online = False
        self._online[client] = []
        self._forget_figures()

    def is_online(self, state: PublisherState) -> bool:
        """Return whether a boot is online."""
        return state.online if state.announced else bool(self._online.get(state.client, True))

    def online(self) -> NDArray[np.bool_]:
        """Return whether each numbered boot is online, and True at the end for an unknown one; not to be changed."""
        if self._presence is None:
            self._presence = np.ones(self._numbers + 1, np.bool_)
            for state in self._boots.values():
                self._presence[state.number] = self.is_online(state)
        return self._presence

    def is_client_online(self, client: str) -> bool:
        """Return whether a client is online in any of its boots."""
        return bool(self._online.get(client, True))

    def rows(self) -> NDArray[np.int64]:
        """Return the row in `traffic` of each numbered boot, and 0 at the end for an unknown one; not to be changed."""
        if self._rows is None:
            self._rows = np.zeros(self._numbers + 1, np.int64)
            for state in self._boots.values():
                self._rows[state.number] = self.traffic.row_of(state.client)
        return self._rows

    def boots_online(self) -> set[str]:
        """Return the ids of the boots that are online; not to be changed."""
        if self._boots_online is None:
            self._boots_online = {
                boot for (_, boot), state in self._boots.items() if self.is_online(state)
            }
        return self._boots_online

    def names(self) -> dict[int, str]:
        """Return the client of each numbered boot; not to be changed."""
        if self._names is None:
            self._names = {state.number: client for (client, _), state in self._boots.items()}
        return self._names

    def clients(self) -> dict[str, bool]:
        """Return for each client whether it is online in any of its boots; not to be changed."""
        if self._clients is None:
            found: dict[str, bool] = {}
            for state in self._boots.values():
                found[state.client] = found.get(state.client, False) or self.is_online(state)
            self._clients = found
        return self._clients

    def _note_presence(self, client: str, states: list[PublisherState]) -> None:
        """Have what is known of presence follow a client; it is found again of all where these are not all of its boots."""
        known = self._presence
        self._forget_figures()
        is_gone = not self._room.of(client)
        if known is None or len(states) != max(1, self._room.of(client)):
            return
        # What was returned before stays as it was.
        self._presence = np.ones(self._numbers + 1, np.bool_)
        self._presence[: len(known)] = known
        for state in states:
            self._presence[state.number] = is_gone or self.is_online(state)

    def _forget_figures(self) -> None:
        self._presence = self._clients = self._boots_online = None

    def copy(self) -> Publishers:
        """Return a copy."""
        states = {id(state): copy.copy(state) for state in self._boots.values()}

        def copied_states(
            by_client: dict[str, list[PublisherState]],
        ) -> dict[str, list[PublisherState]]:
            return {
                client: [
                    states.get(id(state)) or states.setdefault(id(state), copy.copy(state))
                    for state in same
                ]
                for client, same in by_client.items()
            }

        return copied(
            self,
            _boots={key: states[id(state)] for key, state in self._boots.items()},
            _announced=copied_states(self._announced),
            _online=copied_states(self._online),
            _room=self._room.copy(),
            _undescribed=self._undescribed.copy(),
            _free=self._free.copy(),
            _nameless=self._nameless.copy(),
            _presence=None,
            _clients=None,
            _rows=None,
            _names=None,
            _boots_online=None,
            traffic=self.traffic.copy(),
        )

    def drop(self, unnamed: Iterable[tuple[str, str]]) -> Renumbering:
        """Forget boots that are gone and that no descriptor names any more; all others keep their numbers.

        Args:
            unnamed: Boots that descriptors do not name any more, by client and boot; none has ever named the others that may go.
        """
        boots = np.arange(self._numbers + 1, dtype=np.int32)
        boots[-1] = -1
        wanted = [
            key
            for key in dict.fromkeys(unnamed)
            if key in self._boots and key not in self._nameless
        ]
        going = [key for key in self._nameless if not self._is_there(key)]
        going += [key for key in wanted if not self._is_there(key)]
        for key in wanted:
            self._boots[key].described, self._nameless[key] = False, None
            self._undescribed.change(key[0], 1)
        for key in going:
            self._forget(key, boots)
        for key in wanted:
            if key in self._nameless:
                # It may be there as long as it has room among those that describe nothing.
                self._undescribed.change(key[0], -1)
                why = self._undescribed.refusal(key[0], 1, "")
                self._undescribed.change(key[0], 1)
                if why is not None:
                    self._forget(key, boots)
                    going.append(key)
        clients = {client for client, _ in going if not self._room.of(client)}
        if len(self.traffic) > self._room.owners + len(clients) + 1:
            # The boots of others have been forgotten where room was short.
            clients = {client for client in self.traffic.names[1:] if not self._room.of(client)}
        rows = np.arange(len(self.traffic), dtype=np.int64)
        for client in sorted(clients):
            row = self.traffic.row_of(client)
            if row:
                last = self.traffic.drop(client)
                rows[rows == row] = 0
                rows[rows == last] = row
        self._rows = None
        return Renumbering(boots, rows)

    def _is_there(self, key: tuple[str, str]) -> bool:
        """Return whether a boot has announced itself and not gone."""
        state = self._boots[key]
        return state.announced and state.online

    def keep(self, described: set[tuple[str, str]]) -> None:
        """Forget boots that are gone and that no descriptor names, and number the rest again."""
        self.settle(finish(self.keeping(described)))

    def keeping(self, described: set[tuple[str, str]]) -> Slices[KeptBoots]:
        """Find out, in slices in which nothing changes, what `keep` keeps, for `settle`."""
        kept = KeptBoots({}, {}, {}, OrderedDict(), Room(self._most), Room(self._most_undescribed))
        for number, (key, state) in enumerate(self._boots.items()):
            if number % SLICE == SLICE - 1:
                yield
            client, is_described = state.client, key in described
            if not is_described and (
                not (state.announced and state.online) or kept.undescribed.refusal(client, 1, "")
            ):
                continue
            kept.numbers[key] = len(kept.boots)
            kept.boots[key] = state
            if not is_described:
                kept.undescribed.change(client, 1)
                kept.nameless[key] = None
            if state.announced:
                kept.announced.setdefault(client, []).append(state)
        yield
        for client, number in Counter(state.client for state in kept.boots.values()).items():
            kept.room.change(client, number)
        return kept

    def settle(self, kept: KeptBoots) -> None:
        """Forget all other boots, and give those that are kept their new numbers."""
        self._room, self._undescribed = kept.room, kept.undescribed
        self._announced, self._nameless, self._free = kept.announced, kept.nameless, []
        is_less = len(kept.boots) < len(self._boots) or len(self.traffic) > len(kept.boots) + 1
        self._boots = kept.boots
        for number, state in enumerate(kept.boots.values()):
            state.number, state.described = number, True
        for key in kept.nameless:
            kept.boots[key].described = False
        if is_less:
            clients = {state.client for state in self._boots.values()}
            left = {id(state) for state in self._boots.values()}
            self._online = {
                client: [each for each in online if id(each) in left]
                for client, online in self._online.items()
                if client in clients
            }
            self.traffic.keep(clients)
        self._rows = self._names = None
        self._forget_figures()
