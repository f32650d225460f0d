from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from trnfleet.config import find_file, load_model, shipped_names
from trnfleet.domain.alerts.rule_tests import Case, CaseFile
from trnfleet.domain.alerts.rules import Rule
from trnfleet.export.notification import Notification, annotations_of, facts
from trnfleet.monitor.alerting.rule_tests.play import FLEET, RuleTest
from trnfleet.services.files.rule_tests import run_tests
from trnfleet.services.files.rules import load_rules
from trnfleet.services.watch.service import describe

FILES = sorted(Path(__file__).parent.glob("*.toml"))
RULES_PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_shipped_rules_do_as_their_tests_say(path: Path) -> None:
    """Every test of the file succeeds, as `trnfleet rules test` runs it."""
    count, found = run_tests(path)

    assert count
    assert found == []


def test_every_shipped_file_has_its_tests() -> None:
    """A file of rules without a file of tests is found here."""
    assert [path.stem for path in FILES] == shipped_names("alerts")


BASE = "https://wiki.example/trnfleet/rules"
PLACED = re.compile(
    r"uc1(/[\w-]+){0,3}(:\w+)?( rack [AB])?: |(job|reservation|cap|publishers?) [\w-]+( and"
    r" [\w-]+)?(?![\w-])|fleet test: "
)
"""A summary's beginning: an address, a name with its kind, or the fleet."""
AMOUNT = re.compile(r"\b\d[\d,.]* ([a-zA-Z]|%|°C|/s)")
WITHOUT_AMOUNT = {
    "efa-link-down",
    "interconnect-impaired",
    "device-unreachable",
    "retirement-notice",
    "rack-event",
    "job-failed",
    "job-hung",
    "publisher-offline",
    "retained-withheld",
    "recording-stopped",
}
"""Rules about a state or an event. They have no amount."""


class Quickest(NamedTuple):
    """A rule's test with the soonest firing."""

    at_s: float
    file: CaseFile
    case: Case
    target: str


def quickest_cases() -> dict[str, Quickest]:
    """Return each rule's quickest test with an expected firing."""
    found: dict[str, Quickest] = {}
    for path in FILES:
        file = load_model(path, CaseFile)
        for case in file.tests:
            for expected in case.expect:
                targets = [alert.target for alert in expected.alerts if alert.state == "firing"]
                known = found.get(expected.rule)
                if targets and (known is None or expected.at < known.at_s):
                    found[expected.rule] = Quickest(expected.at, file, case, targets[0])
    return found


@pytest.fixture(scope="module")
def notifications() -> dict[str, Notification]:
    """Return a notification of each shipped rule, as from a watch.

    Each is fired by the rule's own test.
    """
    made: dict[str, Notification] = {}
    rules = load_rules()
    for name, (at_s, file, case, target) in quickest_cases().items():
        test = RuleTest(
            case,
            [each for each in rules if each.name == name],
            interval_s=file.interval,
            stale_after_s=file.stale_after_s,
        )
        for _ in range(int(at_s / file.interval) + 1):
            test.advance()
        alert = next(
            each for each in test.alerts.active() if (each.name, each.target) == (name, target)
        )
        message = describe(alert, "watch-1", runbook_base=BASE)
        made[name] = Notification(FLEET, message, alert.fired_ns or 0)
    return made


def test_every_shipped_rule_is_seen_to_fire() -> None:
    """Every rule has a test with a firing."""
    assert {rule.name for rule in load_rules()} - quickest_cases().keys() == set()


def test_what_receivers_get_of_every_shipped_rule(notifications: dict[str, Notification]) -> None:
    """Every summary has place and amount with unit, and every rule an anchor."""
    anchors = set(re.findall(r"^### (\S+)$", RULES_PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert anchors == notifications.keys()
    for name, notification in notifications.items():
        summary = annotations_of(notification)["summary"]
        placed = PLACED.match(summary)
        assert placed, f"{name}: {summary}"
        text = summary[placed.end() :]
        amounts = AMOUNT.findall(text)
        assert bool(amounts) is (name not in WITHOUT_AMOUNT), f"{name}: {summary}"


def test_annotations_of_every_shipped_rule(notifications: dict[str, Notification]) -> None:
    """Annotations: meaning, runbook, the rule's anchor, and the ack command."""
    for name, notification in notifications.items():
        annotations = annotations_of(notification)
        assert annotations["runbook_url"] == f"{BASE}#{name}"
        assert annotations["description"]
        assert annotations["runbook"]
        assert annotations["fingerprint"] == notification.fingerprint
        assert annotations["ack"] == f"trnfleet ack {notification.fingerprint} --name {FLEET}"
        assert annotations["value"] == facts(notification)["value_text"]
        assert "runbook_url" not in annotations_of(
            notification._replace(
                message=msgspec.structs.replace(notification.message, runbook_url="")
            )
        )


def test_every_key_of_a_rule_is_explained() -> None:
    """The comment at the head of the first file has every key."""
    head = find_file("alerts", "hardware").read_text(encoding="utf-8").partition("\ntitle = ")[0]
    keys = {field.alias or key for key, field in Rule.model_fields.items()}

    assert keys - set(re.findall(r"\w+", head)) == set()
