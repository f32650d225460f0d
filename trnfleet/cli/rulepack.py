"""Alert rules by name or file: the shipped pack, or what the user wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.config import find_file, load_model, shipped_names
from trnfleet.domain.alerts.rules import Rule, RuleFile, join_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

KIND = "alerts"
"""Folder of the shipped rule files in `config/`."""


def load_rules(names: Sequence[str] = ()) -> tuple[Rule, ...]:
    """Return the rules of some files as one pack; all that are shipped for none.

    Args:
        names: Names of shipped files, or paths.

    Raises:
        ConfigError: a file is not there or invalid, two rules have one name, or one inhibits a rule that is not there.
    """
    paths = [find_file(KIND, name) for name in (names or shipped_names(KIND))]
    shipped = [find_file(KIND, name) for name in shipped_names(KIND)] if names else []
    # Shipped files inhibit each other's rules; one of them alone is valid all the same.
    elsewhere = [rule.name for path in shipped for rule in load_model(path, RuleFile).rules]
    return join_rules(((str(path), load_model(path, RuleFile)) for path in paths), elsewhere=elsewhere)
