"""`trnfleet completion`: the script for shell completion of commands, options and values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from trnfleet.errors import TrnfleetError

VARIABLE = "_TRNFLEET_COMPLETE"
"""Variable with the script's request for completions. Click derives it from the program's name."""
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL, for commands, options, and names of fleets, faults, profiles and others.

    The script runs the trnfleet on your PATH, and contacts no broker. Bash must be 4.4 or newer.

    \b
    Examples:
      eval "$(trnfleet completion bash)"                                      # in ~/.bashrc
      trnfleet completion zsh > "${fpath[1]}/_trnfleet"                       # with compinit in ~/.zshrc
      trnfleet completion fish > ~/.config/fish/completions/trnfleet.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise TrnfleetError(f"click has no completion of {shell}")
    click.echo(kind(ctx.find_root().command, {}, "trnfleet", VARIABLE).source())
