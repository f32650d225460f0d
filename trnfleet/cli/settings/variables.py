"""Environment variables that look like settings, but are not."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from trnfleet.config import shipped_folder
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PREFIX = "TRNFLEET_"
BESIDE_OPTIONS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("CONFIG", "PROFILE", "MQTT_PASSWORD", "ALERTMANAGER_PASSWORD", "WEBHOOK_PASSWORD"),
        # Passwords of the users of config/brokers/nats.conf.
        *(
            f"{role}_PASSWORD"
            for role in ("PUBLISHER", "WATCH", "VIEWER", "OPERATOR", "RELAY", "AGENT")
        ),
    )
)
"""Variables without an option."""
OF_AN_ALERT = f"{PREFIX}ALERT_"
"""Prefix of the variables set by a watch for its programs."""

_KEY = re.compile(r"^(?:# )?([a-z-]+) = ", re.MULTILINE)


def unknown_variables(environment: Iterable[str]) -> Iterator[str]:
    """Yield a line about each variable without an option.

    The shipped settings file lists every option with a variable, so no command has to be loaded.
    """
    names = [
        name
        for name in environment
        if name.startswith(PREFIX)
        and name not in BESIDE_OPTIONS
        and not name.startswith(OF_AN_ALERT)
    ]
    if not names:
        return
    text = (shipped_folder(".") / "trnfleet.toml").read_text(encoding="utf-8")
    known = {PREFIX + key.upper().replace("-", "_") for key in _KEY.findall(text)}
    choices = [variable.removeprefix(PREFIX) for variable in known | BESIDE_OPTIONS]
    for name in sorted(set(names) - known):
        close = difflib.get_close_matches(name.removeprefix(PREFIX), choices, n=1)
        hint = f"did you mean {PREFIX}{close[0]}?" if close else "no option has this variable"
        yield f"{plain(name, 80)} is ignored: {hint}"
