"""Publishers by their boots, and their presence by their own messages and last wills."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True, eq=False)
class PublisherState:
    """One boot of a publisher: a last will is about the boot that left it."""

    number: int
    client: str
    online: bool = True
    """The state in its own last message."""
    announced: bool = False
    """Whether the publisher has announced this boot; else only a descriptor names it."""


class Publishers:
    """The publishers of a fleet.

    A publisher of many instances gives one that boots again a boot id of its own, and announces only its own boot. A boot
    that is not announced is therefore online while its client is.
    """

    def __init__(self) -> None:
        self._boots: dict[tuple[str, str], PublisherState] = {}
        self._announced: dict[str, list[PublisherState]] = {}
        """Each client's announced boots."""
        self._online: dict[str, bool] = {}
        """Whether each client that has announced itself is online in any of its announced boots."""

    def __len__(self) -> int:
        """Return the number of boots."""
        return len(self._boots)

    def find(self, client: str, boot: str) -> PublisherState | None:
        """Return a boot that is known."""
        return self._boots.get((client, boot))

    def number(
        self, client: str, boot: str, *, limit: int, former_boot: str | None = None
    ) -> PublisherState | None:
        """Return a boot, known or new; None for a new one beyond the limit.

        Args:
            client: The publisher's name.
            boot: Id of the boot.
            limit: Boots that are kept at most.
            former_boot: The boot that the new one follows; it is forgotten unless it was announced.
        """
        state = self._boots.get((client, boot))
        if state is not None:
            return state
        former = None if former_boot is None else self._boots.get((client, former_boot))
        if former is not None and not former.announced:
            # Instances that boot again and again must not use numbers up.
            del self._boots[client, former_boot or ""]
            state = former
        elif len(self._boots) >= limit:
            return None
        else:
            state = PublisherState(len(self._boots), client)
        self._boots[client, boot] = state
        return state

    def announce(self, state: PublisherState, *, online: bool) -> bool:
        """Set the announced presence of a boot; return whether it is its first announcement."""
        is_first = not state.announced
        state.online, state.announced = online, True
        same = self._announced.setdefault(state.client, [])
        if is_first:
            same.append(state)
        if online:
            # A client id is connected once at a broker: where a new boot is online, the former ones are gone.
            for other in same:
                other.online = other is state
        self._online[state.client] = any(other.online for other in same)
        return is_first

    def clear(self, client: str) -> None:
        """Forget the presence of a client: nothing is offline because of it."""
        for state in self._boots.values():
            if state.client == client:
                state.online = True
        self._online.pop(client, None)

    def is_online(self, state: PublisherState) -> bool:
        """Return whether a boot is online."""
        return state.online if state.announced else self._online.get(state.client, True)

    def online(self) -> NDArray[np.bool_]:
        """Return whether each numbered boot is online, and True at the end for an unknown one."""
        online = np.ones(len(self._boots) + 1, np.bool_)
        for state in self._boots.values():
            online[state.number] = self.is_online(state)
        return online

    def boots_online(self) -> set[str]:
        """Return the ids of the boots that are online."""
        return {boot for (_, boot), state in self._boots.items() if self.is_online(state)}

    def names(self) -> dict[int, str]:
        """Return the client of each numbered boot."""
        return {state.number: client for (client, _), state in self._boots.items()}

    def clients(self) -> dict[str, bool]:
        """Return for each client whether it is online in any of its boots."""
        found: dict[str, bool] = {}
        for state in self._boots.values():
            found[state.client] = found.get(state.client, False) or self.is_online(state)
        return found

    def copy(self) -> Publishers:
        """Return a copy."""
        twin = Publishers()
        states = {id(state): copy.copy(state) for state in self._boots.values()}
        twin._boots = {key: states[id(state)] for key, state in self._boots.items()}
        twin._announced = {
            client: [states.get(id(state)) or copy.copy(state) for state in announced]
            for client, announced in self._announced.items()
        }
        twin._online = self._online.copy()
        return twin

    def keep(self, described: set[tuple[str, str]]) -> None:
        """Forget boots that are gone and that no descriptor names, and number the rest again."""
        self._boots = {
            key: state
            for key, state in self._boots.items()
            if key in described or (state.announced and state.online)
        }
        self._announced = {}
        for number, state in enumerate(self._boots.values()):
            state.number = number
            if state.announced:
                self._announced.setdefault(state.client, []).append(state)
        clients = {state.client for state in self._boots.values()}
        self._online = {client: online for client, online in self._online.items() if client in clients}
