"""Commands to a running simulator: its actions, behind the checks that all commands pass.

It is off by default; the effect of a command is behind `Control`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from trnfleet.domain.durations import LONGEST_JUMP_S
from trnfleet.errors import ConfigError
from trnfleet.sim.reservations import messages
from trnfleet.wire.commands.server import CommandServer, one_line
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.wire.messages import CommandMessage

HOW_TO_ALLOW = "commands are off: start the simulator with --allow-commands"

ARGUMENTS = {
    "inject": ("fault", "for_s", "magnitude"),
    "faults": (),
    "jump": ("by_s",),
    "rebirth": (),
    **messages.ARGUMENTS,
}
"""Every action with its arguments."""
_HARMLESS = frozenset({"rebirth"}) | messages.READING
"""Actions without side effects, carried out by every simulator."""


class Control(Protocol):
    """Actions of a simulation that commands can request.

    Every method returns at once, with an answer of one line.
    """

    def inject(
        self, fault: str, target: str, *, lasts_s: float | None, magnitude: float | None, by: str
    ) -> str:
        """Begin a fault; return an answer of one line.

        Args:
            fault: Name of a fault.
            target: An address, a pattern, a random choice, or a job.
            lasts_s: Simulated seconds until it ends by itself; None for the table's.
            magnitude: In the fault's own unit; None for the table's.
            by: The sender, for the record.

        Raises:
            ConfigError: fault or target is unknown, or they do not go together; the message names
                the nearest.
        """

    def jump(self, by_s: float) -> str:
        """Move simulated time ahead by `by_s` seconds, above zero; return an answer of one line.

        Raises:
            ConfigError: it cannot jump that far.
        """

    def rebirth(self) -> str:
        """Publish descriptors and jobs again; return an answer of one line."""

    def reserve(self, action: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Search, buy or extend Capacity Blocks.

        Return an answer of one line and the result, as JSON values.

        Raises:
            ConfigError: a rule forbids it, or an argument is wrong; the message names the rule and
                the nearest valid choice.
        """

    def faults(self) -> dict[str, Any]:
        """Return the active faults as JSON values; other keys are optional.

        `active` is a list of objects with `fault`, `target` and `until_s`: simulated seconds since
        the start, or null.
        """


class SimulatorActions:
    """The actions of a simulator."""

    arguments = ARGUMENTS
    harmless = _HARMLESS
    how_to_allow = HOW_TO_ALLOW

    def __init__(self, control: Control) -> None:
        self._control = control

    def concerns(self, action: object, target: object) -> bool:
        """Return True: a simulator also answers unknown commands."""
        del action, target
        return True

    def carry_out(self, command: CommandMessage) -> tuple[str, dict[str, Any]]:
        """Carry a command out; return a reason (the action done) and the requested result."""
        control = self._control
        if command.action == "inject":
            fault = command.args.get("fault")
            if not isinstance(fault, str):
                raise ConfigError("inject needs the argument 'fault', the name of a fault")
            done = control.inject(
                fault,
                command.target,
                lasts_s=_number(command, "for_s"),
                magnitude=_number(command, "magnitude"),
                by=one_line(command.by or command.client),
            )
            return done, {}
        if command.action == "jump":
            by_s = _number(command, "by_s")
            if not by_s or by_s > LONGEST_JUMP_S:
                raise ConfigError(
                    "jump needs the argument 'by_s', simulated seconds above 0 and at most"
                    f" {LONGEST_JUMP_S:.0f}"
                )
            return control.jump(by_s), {}
        if command.action == "rebirth":
            return control.rebirth(), {}
        if command.action in messages.ARGUMENTS:
            return control.reserve(command.action, command.args)
        return "the faults of this simulator", control.faults()


class CommandHandler(CommandServer):
    """The commands of one fleet to a simulator."""

    def __init__(
        self,
        control: Control,
        fleet: str,
        *,
        allowed: bool,
        simulator: str,
        root: str = DEFAULT_ROOT,
        limits: Limits = DEFAULT_LIMITS,
        answers: bool = True,
    ) -> None:
        """Prepare for the commands of one fleet.

        Args:
            control: Carries them out.
            fleet: Its name.
            allowed: Whether any is carried out that changes something.
            simulator: Client id of the publisher; replies name it.
            root: First part of the topics.
            limits: Of replies.
            answers: Whether replies are sent; of a simulation's shards one answers for all.
        """
        super().__init__(
            SimulatorActions(control),
            fleet,
            allowed=allowed,
            names={"simulator": simulator},
            root=root,
            limits=limits,
            answers=answers,
        )


def _number(command: CommandMessage, name: str) -> float | None:
    """Return a number among the arguments, or None where it is not given.

    Raises:
        ConfigError: it is something else.
    """
    value = command.args.get(name)
    if value is None:
        return None
    if isinstance(value, (bool, str)) or not math.isfinite(value):
        raise ConfigError(f"{command.action}: {name} must be a number")
    return value
