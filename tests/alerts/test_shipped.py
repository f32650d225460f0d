from __future__ import annotations

import re
from pathlib import Path

import pytest

from trnfleet.config import find_file, load_model, shipped_names
from trnfleet.domain.alerts.rule_tests import CaseFile
from trnfleet.domain.alerts.rules import Rule
from trnfleet.services.files.rule_tests import run_tests
from trnfleet.services.files.rules import load_rules

FILES = sorted(Path(__file__).parent.glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_shipped_rules_do_as_their_tests_say(path: Path) -> None:
    """Every test of the file succeeds, as `trnfleet rules test` runs it."""
    count, found = run_tests(path)

    assert count
    assert found == []


def test_every_shipped_file_has_its_tests() -> None:
    """A file of rules without a file of tests is found here."""
    assert [path.stem for path in FILES] == shipped_names("alerts")


def test_most_shipped_rules_are_seen_to_fire() -> None:
    """What a test expects to fire, by rule: the rest is told here, so that it cannot grow unseen."""
    fired = {
        expected.rule
        for path in FILES
        for case in load_model(path, CaseFile).tests
        for expected in case.expect
        if any(alert.state == "firing" for alert in expected.alerts)
    }

    assert len({rule.name for rule in load_rules()} - fired) <= 12


def test_every_key_of_a_rule_is_explained() -> None:
    """The comment at the head of the first file has every key."""
    head = find_file("alerts", "hardware").read_text(encoding="utf-8").partition("\ntitle = ")[0]
    keys = {field.alias or key for key, field in Rule.model_fields.items()}

    assert keys - set(re.findall(r"\w+", head)) == set()
