"""Runs of test files of alert rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.config import load_model
from trnfleet.domain.alerts.rule_tests import CaseFile
from trnfleet.errors import ConfigError
from trnfleet.monitor.alerting.rule_tests.play import FailedExpectation, play
from trnfleet.services.files.rules import load_rules

if TYPE_CHECKING:
    from pathlib import Path


def run_tests(path: Path) -> tuple[int, list[FailedExpectation]]:
    """Run all tests of a file; return their number and the failures.

    Raises:
        ConfigError: the file, or a rule file that it names, is invalid.
    """
    content = load_model(path, CaseFile)
    try:
        rules = load_rules([_beside(path, name) for name in content.rules])
        failures = [failure for case in content.tests for failure in play(case, rules, content)]
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return len(content.tests), failures


def _beside(path: Path, name: str) -> str:
    """Return the path of a rule file named in a test file.

    A shipped file's name stays.
    """
    return str(path.parent / name) if "/" in name or name.endswith(".toml") else name
