"""Publishers by their starts: which of them are there, as their own messages and last wills tell."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True, eq=False)
class PublisherState:
    """One start of a publisher: a last will speaks for the start that left it."""

    number: int
    client: str
    online: bool = True
    """What its own message said last."""
    announced: bool = False
    """Whether the publisher has said that this start is there; else only a descriptor names it."""


class Publishers:
    """The publishers of a fleet.

    A publisher that speaks for many instances gives one that boots again a boot id of its own, and announces only its
    own start. A start that is not announced is therefore there while its client is.
    """

    def __init__(self) -> None:
        self._starts: dict[tuple[str, str], PublisherState] = {}
        self._announced: dict[str, list[PublisherState]] = {}
        """Each client's announced starts."""
        self._online: dict[str, bool] = {}
        """Whether each client that has announced itself is there in any of its announced starts."""

    def __len__(self) -> int:
        """Return how many starts are known."""
        return len(self._starts)

    def find(self, client: str, boot: str) -> PublisherState | None:
        """Return a start that is known."""
        return self._starts.get((client, boot))

    def number(
        self, client: str, boot: str, *, limit: int, former_boot: str | None = None
    ) -> PublisherState | None:
        """Return a start, known or new; None for a new one beyond the limit.

        Args:
            client: The publisher's name.
            boot: Id of the start.
            limit: Starts that are kept at most.
            former_boot: Start that the new one follows; it is forgotten where nobody has announced it.
        """
        state = self._starts.get((client, boot))
        if state is not None:
            return state
        former = None if former_boot is None else self._starts.get((client, former_boot))
        if former is not None and not former.announced:
            # Instances that boot again and again must not use numbers up.
            del self._starts[client, former_boot or ""]
            state = former
        elif len(self._starts) >= limit:
            return None
        else:
            state = PublisherState(len(self._starts), client)
        self._starts[client, boot] = state
        return state

    def announce(self, state: PublisherState, *, online: bool) -> bool:
        """Take note of what a start has announced; return whether that is the first that is heard of it."""
        is_first = not state.announced
        state.online, state.announced = online, True
        same = self._announced.setdefault(state.client, [])
        if is_first:
            same.append(state)
        if online:
            # A client id is there once at a broker: where a new start is online, the former ones are gone.
            for other in same:
                other.online = other is state
        self._online[state.client] = any(other.online for other in same)
        return is_first

    def clear(self, client: str) -> None:
        """Forget what a client has said of itself: nothing is offline by it any more."""
        for state in self._starts.values():
            if state.client == client:
                state.online = True
        self._online.pop(client, None)

    def is_online(self, state: PublisherState) -> bool:
        """Say whether a start is there."""
        return state.online if state.announced else self._online.get(state.client, True)

    def online(self) -> NDArray[np.bool_]:
        """Return whether each numbered start is there, and True at the end for an unknown one."""
        online = np.ones(len(self._starts) + 1, np.bool_)
        for state in self._starts.values():
            online[state.number] = self.is_online(state)
        return online

    def boots_online(self) -> set[str]:
        """Return the ids of the starts that are there."""
        return {boot for (_, boot), state in self._starts.items() if self.is_online(state)}

    def names(self) -> dict[int, str]:
        """Return the client of each numbered start."""
        return {state.number: client for (client, _), state in self._starts.items()}

    def clients(self) -> dict[str, bool]:
        """Return for each client whether it is there in any of its starts."""
        found: dict[str, bool] = {}
        for state in self._starts.values():
            found[state.client] = found.get(state.client, False) or self.is_online(state)
        return found

    def copy(self) -> Publishers:
        """Return a copy."""
        twin = Publishers()
        states = {id(state): copy.copy(state) for state in self._starts.values()}
        twin._starts = {key: states[id(state)] for key, state in self._starts.items()}
        twin._announced = {
            client: [states.get(id(state)) or copy.copy(state) for state in announced]
            for client, announced in self._announced.items()
        }
        twin._online = self._online.copy()
        return twin

    def keep(self, described: set[tuple[str, str]]) -> None:
        """Forget starts that are gone and that no descriptor names, and number the rest anew."""
        self._starts = {
            key: state
            for key, state in self._starts.items()
            if key in described or (state.announced and state.online)
        }
        self._announced = {}
        for number, state in enumerate(self._starts.values()):
            state.number = number
            if state.announced:
                self._announced.setdefault(state.client, []).append(state)
        clients = {state.client for state in self._starts.values()}
        self._online = {client: online for client, online in self._online.items() if client in clients}
