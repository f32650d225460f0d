"""Publishers by their boots, and their presence by their own messages and last wills."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.monitor.pipeline.traffic import PublisherTraffic
from trnfleet.monitor.room import Room
from trnfleet.monitor.slices import SLICE, Slices, finish
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


@dataclass(slots=True, eq=False)
class PublisherState:
    """One boot of a publisher: a last will is about the boot that left it."""

    number: int
    client: str
    boot: str
    online: bool = True
    """The state in its own last message."""
    announced: bool = False
    """Whether the publisher has announced this boot; else only a descriptor names it."""
    described: bool = False
    """Whether a descriptor has named it."""
    source: str = ""
    """Kind of source, as its presence or its descriptor says."""


class KeptBoots(NamedTuple):
    """The boots retained with the next layout."""

    boots: dict[tuple[str, str], PublisherState]
    """By client and boot."""
    numbers: dict[tuple[str, str], int]
    announced: dict[str, list[PublisherState]]
    nameless: OrderedDict[tuple[str, str], None]
    room: Room
    undescribed: Room


class Renumbering(NamedTuple):
    """New numbers by former number.

    Removed ones have the number for unknown.
    """

    boots: NDArray[np.int32]
    """Numbers of boots; the last is for -1."""
    rows: NDArray[np.int64]
    """Rows of clients in the traffic."""


class Publishers:
    """The publishers of a fleet.

    A publisher of many instances assigns a new boot id to an instance after its reboot, and
    announces only its own boot. So an unannounced boot is online while its client is.

    Presence arrives before descriptors while hosts join, so boots without a descriptor may fill the
    table. When full, a boot with a descriptor replaces the oldest of them. Made-up names without
    descriptors so never crowd out described instances, and the number of instances is limited.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._most = limits.publishers
        self._most_undescribed = limits.undescribed
        self._boots: dict[tuple[str, str], PublisherState] = {}
        self._announced: dict[str, list[PublisherState]] = {}
        """Each client's announced boots."""
        self._online: dict[str, list[PublisherState]] = {}
        """Online boots of each announced client, usually one or none."""
        self._room = Room(self._most)
        self._undescribed = Room(self._most_undescribed)
        self._free: list[int] = []
        """Numbers of removed boots, for reuse."""
        self._nameless: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Boots without a descriptor, oldest first. In a plain dict, finding the first entry costs
        time for every entry removed before."""
        self._presence: NDArray[np.bool_] | None = None
        self._clients: dict[str, bool] | None = None
        self._rows: NDArray[np.int64] | None = None
        self._names: dict[int, str] | None = None
        self._boots_online: set[str] | None = None
        self._sources: dict[int, str] | None = None
        self.backlogs: dict[int, range] = {}
        """Sequence numbers that come as backlog, by the number of the boot."""
        self.traffic = PublisherTraffic()
        """Traffic of each known client, one row each."""

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

    def has_idle(self) -> bool:
        """Return whether an online publisher describes nothing."""
        return any(self._is_there(key) for key in self._nameless)

    def client_of(self, boot: str) -> str:
        """Return the client of a boot; empty for an unknown one."""
        return next((client for client, other in self._boots if other == boot), "")

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
        """Return a known or new boot.

        There must be room for it.

        Args:
            client: The publisher's name.
            boot: Id of the boot.
            described: Whether a descriptor names it.
            former_boot: The boot before the new one. It is removed unless it was announced.
        """
        state = self._boots.get((client, boot))
        if state is None:
            state = self._replaced(client, former_boot)
            if state is not None:
                # Instances that boot again and again must not use numbers up.
                del self._boots[client, former_boot]
                self._nameless.pop((client, former_boot), None)
                state.boot = boot
            else:
                if self._is_full_of_names:
                    self._forget_oldest()
                number = self._free.pop() if self._free else len(self._boots)
                state = PublisherState(number, client, boot)
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
            self._sources = None
            self._nameless.pop((client, boot), None)
            self._undescribed.change(client, -1)
        return state

    @property
    def _is_full_of_names(self) -> bool:
        """Whether the table is full and has boots without a descriptor."""
        return bool(self._nameless) and self._room.used >= self._room.most

    def _forget_oldest(self) -> None:
        """Remove the oldest boot without a descriptor."""
        self._forget(next(iter(self._nameless)))

    def _forget(self, key: tuple[str, str], numbers: NDArray[np.int32] | None = None) -> None:
        """Remove a boot without a descriptor, and reuse its number for the next one.

        Args:
            key: Its client and boot.
            numbers: New numbers by former number, to be updated for it.
        """
        del self._nameless[key]
        client, _ = key
        state = self._boots.pop(key)
        self._room.change(client, -1)
        self._undescribed.change(client, -1)
        left = [other for other in self._announced.get(client, ()) if other is not state]
        if left:
            self._announced[client] = left
            self._online[client] = [
                other for other in self._online.get(client, ()) if other is not state
            ]
        else:
            self._announced.pop(client, None)
            self._online.pop(client, None)
        self._free.append(state.number)
        self.backlogs.pop(state.number, None)
        if numbers is not None:
            numbers[state.number] = -1
        self._rows = self._names = None
        self._note_presence(client, [] if self._room.of(client) else [state])

    def _replaced(self, client: str, former_boot: str) -> PublisherState | None:
        """Return the former boot, for reuse of its number; None if it was announced."""
        former = self._boots.get((client, former_boot)) if former_boot else None
        return None if former is None or former.announced else former

    def announce(self, state: PublisherState, *, online: bool) -> bool:
        """Set the announced presence of a boot; return whether it is its first announcement."""
        is_first = not state.announced
        if is_first:
            state.announced = True
            self._announced.setdefault(state.client, []).append(state)
        others = [other for other in self._online.get(state.client, ()) if other is not state]
        state.online = online
        if online:
            # A client id is connected once at a broker: where a new boot is online, the former ones
            # are gone.
            self._online[state.client] = [state]
            for other in self._announced[state.client].copy():
                if other is not state:
                    other.online = False
                    if not other.described:
                        self._forget((other.client, other.boot))
        else:
            self._online[state.client] = others
        self._note_presence(state.client, self._announced.get(state.client, []))
        return is_first

    def has_announced(self, client: str) -> bool:
        """Return whether a client has announced a boot: a publisher of telemetry, not a watch."""
        return client in self._announced

    def clear(self, client: str) -> bool:
        """Forget the presence of a client, and the client where no descriptor names it.

        Returns:
            Whether it is forgotten; its row in `traffic` goes with the next layout.
        """
        announced = self._announced.pop(client, [])
        self._online.pop(client, None)
        for state in announced:
            state.announced = False
            state.online = True
            if not state.described:
                self._forget((client, state.boot))
        self._forget_figures()
        return bool(announced) and not self._room.of(client)

    def is_online(self, state: PublisherState) -> bool:
        """Return whether a boot is online."""
        return state.online if state.announced else bool(self._online.get(state.client, True))

    def online(self) -> NDArray[np.bool_]:
        """Return a mask of online boots by number, then True for an unknown boot.

        Do not modify it.
        """
        if self._presence is None:
            self._presence = np.ones(self._numbers + 1, np.bool_)
            for state in self._boots.values():
                self._presence[state.number] = self.is_online(state)
        return self._presence

    def is_client_online(self, client: str) -> bool:
        """Return whether a client is online in any of its boots."""
        return bool(self._online.get(client, True))

    def rows(self) -> NDArray[np.int64]:
        """Return the row in `traffic` of each boot, by number.

        The last entry is 0, for an unknown boot. Do not modify it.
        """
        if self._rows is None:
            self._rows = np.zeros(self._numbers + 1, np.int64)
            for state in self._boots.values():
                self._rows[state.number] = self.traffic.row_of(state.client)
        return self._rows

    def boots_online(self) -> set[str]:
        """Return the ids of online boots.

        Do not modify the set.
        """
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

    def note_source(self, state: PublisherState, source: str) -> None:
        """Note the kind of source that a boot is."""
        if state.source != source:
            state.source = source
            self._sources = None

    def sources(self) -> dict[int, str]:
        """Return the kind of source of each described boot, by number; not to be changed.

        What a client has announced is true of all its hosts.
        """
        if self._sources is None:
            announced = {
                client: state.source
                for client, states in self._announced.items()
                for state in states
                if state.source
            }
            self._sources = {
                state.number: announced.get(state.client, state.source)
                for state in self._boots.values()
                if state.described
            }
        return self._sources

    def clients(self) -> dict[str, bool]:
        """Return whether each client is online in any boot.

        Do not modify the mapping.
        """
        if self._clients is None:
            clients: dict[str, bool] = {}
            for state in self._boots.values():
                clients[state.client] = clients.get(state.client, False) or self.is_online(state)
            self._clients = clients
        return self._clients

    def _note_presence(self, client: str, states: list[PublisherState]) -> None:
        """Update the presence data for a client.

        Recompute it for all clients if `states` lacks some of its boots.
        """
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
        self._presence = self._clients = self._boots_online = self._sources = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles, without derived data."""
        derived = ("_presence", "_clients", "_rows", "_names", "_boots_online", "_sources")
        return self.__dict__ | dict.fromkeys(derived)

    def drop(self, unnamed: Iterable[tuple[str, str]]) -> Renumbering:
        """Remove offline boots without a descriptor.

        All others keep their numbers.

        Args:
            unnamed: Boots no longer named by descriptors, by client and boot. Other removable boots
                were never named.
        """
        boots = np.arange(self._numbers + 1, dtype=np.int32)
        boots[-1] = -1
        known = [
            key
            for key in dict.fromkeys(unnamed)
            if key in self._boots and key not in self._nameless
        ]
        going = [key for key in self._nameless if not self._is_there(key)]
        going += [key for key in known if not self._is_there(key)]
        for key in known:
            self._boots[key].described = False
            self._nameless[key] = None
            self._undescribed.change(key[0], 1)
        for key in going:
            self._forget(key, boots)
        for key in known:
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
        """Remove offline boots without a descriptor, and renumber the rest."""
        self.settle(finish(self.keeping(described)))

    def keeping(self, described: set[tuple[str, str]]) -> Slices[KeptBoots]:
        """Find the boots `keep` would retain, for `settle`.

        Runs in slices. Nothing may change meanwhile.
        """
        retained = KeptBoots(
            {}, {}, {}, OrderedDict(), Room(self._most), Room(self._most_undescribed)
        )
        for number, (key, state) in enumerate(self._boots.items()):
            if number % SLICE == SLICE - 1:
                yield
            client = state.client
            is_described = key in described
            if not is_described and (
                not (state.announced and state.online)
                or retained.undescribed.refusal(client, 1, "")
            ):
                continue
            retained.numbers[key] = len(retained.boots)
            retained.boots[key] = state
            if not is_described:
                retained.undescribed.change(client, 1)
                retained.nameless[key] = None
            if state.announced:
                retained.announced.setdefault(client, []).append(state)
        yield
        for client, number in Counter(state.client for state in retained.boots.values()).items():
            retained.room.change(client, number)
        return retained

    def settle(self, remaining: KeptBoots) -> None:
        """Remove all other boots, and renumber the retained ones."""
        self._room = remaining.room
        self._undescribed = remaining.undescribed
        self._announced = remaining.announced
        self._nameless = remaining.nameless
        self._free = []
        is_less = (
            len(remaining.boots) < len(self._boots) or len(self.traffic) > len(remaining.boots) + 1
        )
        self._boots = remaining.boots
        for number, state in enumerate(remaining.boots.values()):
            state.number = number
            state.described = True
        for key in remaining.nameless:
            remaining.boots[key].described = False
        if is_less:
            clients = {state.client for state in self._boots.values()}
            left = {id(state) for state in self._boots.values()}
            self._online = {
                client: [state for state in online if id(state) in left]
                for client, online in self._online.items()
                if client in clients
            }
            self.traffic.keep(clients)
        self._rows = self._names = None
        self._forget_figures()
