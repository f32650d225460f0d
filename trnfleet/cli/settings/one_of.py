"""Options with one value where other commands accept several, such as brokers and fleets."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

ORIGINS = "trnfleet.settings.origins"
"""Key of a context's `meta` for the settings' files and tables, by parameter."""


class OneOf(click.Option):
    """An option with one value where other commands accept several.

    More than one are refused, with the values to choose from. Otherwise the last one on a command
    line would silently win, and a list in a profile would be refused although the command line
    names one.
    """

    is_lenient = False
    """Whether several are accepted. `config print` shows them."""

    def __init__(self, *flags: Any, noun: str, **attributes: Any) -> None:
        """Make the option.

        Args:
            flags: Its flags, and its name.
            noun: What it names, for the message.
            attributes: As of any option.
        """
        super().__init__(*flags, **{**attributes, "multiple": True})
        self.noun = noun

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the one value.

        None without one.

        Raises:
            click.UsageError: there are several.
        """
        given = tuple(dict.fromkeys(super().process_value(ctx, value) or ()))
        if self.is_lenient:
            return given
        if len(given) > 1:
            flag = max(self.opts, key=len)
            origin = ctx.meta.get(ORIGINS, {}).get(self.name)
            source = ctx.get_parameter_source(self.name or "")
            where = {
                ParameterSource.DEFAULT_MAP: f"{origin} {flag[2:]}" if origin else flag,
                ParameterSource.ENVIRONMENT: str(self.envvar),
            }.get(source or ParameterSource.COMMANDLINE, flag)
            choices = ", ".join(map(str, given))
            raise click.UsageError(
                f"{where}: {ctx.command_path.removeprefix('trnfleet ')} takes one {self.noun};"
                f" choose one with {flag}: {choices}"
            )
        return given[0] if given else None
