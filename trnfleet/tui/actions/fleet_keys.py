"""Keys and commands to switch between fleets: the next one, or one by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from trnfleet.tui.actions.commands import Command, checked

if TYPE_CHECKING:
    from trnfleet.tui.state.context import Fleets, UiContext


class FleetKeys(App[None]):
    """An app with these keys.

    They do nothing with one fleet.
    """

    HELP_TITLE = "Everywhere"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fleet(1)", "the next fleet, where there are several"),
    ]
    context: UiContext

    def show_fleet(self, name: str, view: str | None = None) -> None:
        """Go to a fleet, at its last place."""
        raise TypeError(f"{type(self).__name__} does not implement show_fleet({name!r}, {view!r})")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the key with one fleet."""
        return (
            self.fleets.are_several
            if action == "fleet"
            else super().check_action(action, parameters)
        )

    @property
    def fleets(self) -> Fleets:
        """All fleets."""
        return self.context.fleets

    def action_fleet(self, by: int) -> None:
        """Go to the next fleet, after the last one to the first."""
        names = self.fleets.names
        place = names.index(self.context.monitor.fleet_name)
        self.show_fleet(names[(place + by) % len(names)])

    def fleet_command(self) -> Command:
        """Return the command that goes to a fleet."""
        return Command(
            ("ctx", "context", "use"),
            "another fleet",
            lambda rest: self.show_fleet(checked("fleet", rest, self.fleets.names)),
            lambda: self.fleets.names,
            key="f",
            needs="a fleet",
            is_of_fleet=True,
        )
