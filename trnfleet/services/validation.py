"""Validation of files: recordings and lines, fleets, scenarios, alert rules and their tests.

Imports are made for each kind, because a recording needs neither the simulator nor the alert
engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError, WireError
from trnfleet.services.files.inputs import NOUNS, Kind, detect
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.telemetry import decode_sample
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trnfleet.wire.ports import Stored

NO_PART = (1, 1_000_000_000)
"""A shard beyond a fleet's UltraServers, without instances. It shows a file's errors without the
columns of chips and hosts, which use most of the memory."""


def check_messages(
    path: Path, utilization: str | None = None, sysfs: Path | None = None
) -> tuple[str, list[str]]:
    """Return the kind of a file of messages, and its problems.

    Raises:
        ConfigError: it cannot be read; `UnknownKindError` where it is no file of messages.
    """
    if path.is_dir():
        from trnfleet.bridge.neuron.sysfs import read_tree  # noqa: PLC0415

        tree = read_tree(path)
        return tree.text(), [tree.problem()] if tree.doubts.count else []
    kind = detect(path)
    if kind is Kind.MCAP:
        from trnfleet.record.read.recording import Recording  # noqa: PLC0415

        recording = Recording.open([path])
        telemetry = _Telemetry(recording.root)
        try:
            count = recording.statistics(telemetry.take).messages
            return f"recording, {count:,} messages", [*recording.verify(), *telemetry.problems()]
        finally:
            recording.close()
    if kind is Kind.NEURON_LS:
        from trnfleet.bridge.neuron.devices import read_device_list  # noqa: PLC0415

        return f"devices of neuron-ls, {len(read_device_list(path).devices):,} of them", []
    from trnfleet.services.files.conversion import open_input  # noqa: PLC0415
    from trnfleet.services.files.neuron import HostInput  # noqa: PLC0415

    given = open_input(path, kind, Kind.MCAP, sysfs=sysfs, utilization=utilization)
    telemetry = _Telemetry(given.about.root)
    count = 0
    for stored in given.messages():
        count += 1
        telemetry.take(stored)
    account = given.skipped.text(NOUNS[kind])
    name = f"another program's recording, {count:,} messages"
    if isinstance(given, HostInput):
        form = f" ({', '.join(given.forms)})" if given.forms else ""
        clauses = (f"{kind}{form}: {account}", given.unread_text(), given.tree_text())
        account = "; ".join(clause for clause in clauses if clause)
        name = f"{account}, {given.begin_text()}" if given.is_dated else account
    problems = [] if given.skipped.is_sound else [account]
    problems += telemetry.problems()
    return name, problems


class _Telemetry:
    """Values and names in the JSON telemetry of a file that a monitor cannot use."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._found: dict[str, tuple[int, str, str]] = {}
        """Count, first path and text of each doubt, by key."""

    def take(self, stored: Stored) -> None:
        """Look at a message."""
        envelope = stored.envelope
        try:
            topic = parse_topic(envelope.topic, self._root)
        except WireError:
            return
        if (
            topic.topic_class is not TopicClass.TELEMETRY
            or not envelope.payload
            or is_cbor(envelope)
        ):
            return
        try:
            doubts = decode_sample(envelope.payload).doubts
        except WireError:
            # A recording keeps whatever came.
            return
        for doubt in doubts:
            times, first, text = self._found.get(doubt.key, (0, topic.path, doubt.text))
            self._found[doubt.key] = times + 1, first, text

    def problems(self) -> list[str]:
        """Return a line for each key, with how often it came and where first."""
        return [
            f"telemetry of {path}: {text} ({counted(times, 'time')})"
            for times, path, text in self._found.values()
        ]


def check_document(path: Path, data: Mapping[str, Any]) -> str | None:
    """Return the kind of a TOML file.

    None if it is not a fleet, a scenario, rules or tests of rules.

    Args:
        path: The file.
        data: Its content.

    Raises:
        ConfigError: it is invalid; the message says where.
    """
    if "tests" in data:
        return _check_tests(path)
    if isinstance(data.get("rules"), list):
        return _check_rules(path)
    if "clusters" in data:
        return _check_fleet(path)
    if not {"faults", "loads", "rates"}.isdisjoint(data) or isinstance(data.get("fleet"), str):
        return _check_scenario(path)
    return None


def _check_fleet(path: Path) -> str:
    from trnfleet.services.simulator.engine import make_engine  # noqa: PLC0415
    from trnfleet.services.simulator.run import load_run  # noqa: PLC0415

    run = load_run(
        {"fleet"}, fleet=str(path), scenario=None, seed=7, period_s=1.0, speed=1.0, start=None
    )
    engine = make_engine(run, run.fleet, NO_PART)
    return f"fleet {run.fleet.name}, {counted(engine.layout.chips, 'chip')}"


def _check_scenario(path: Path) -> str:
    from trnfleet.services.simulator.engine import make_engine, transport_faults  # noqa: PLC0415
    from trnfleet.services.simulator.run import load_run  # noqa: PLC0415

    run = load_run(
        set(), fleet="demo", scenario=str(path), seed=7, period_s=1.0, speed=1.0, start=None
    )
    make_engine(run, run.fleet, NO_PART)
    transport_faults(run)
    return f"scenario for the fleet {run.fleet.name}"


def _check_rules(path: Path) -> str:
    from trnfleet.config import load_model  # noqa: PLC0415
    from trnfleet.domain.alerts.rules import RuleFile, join_rules  # noqa: PLC0415
    from trnfleet.services.files.rules import shipped_rules  # noqa: PLC0415

    content = load_model(path, RuleFile)
    join_rules([(str(path), content)], elsewhere=shipped_rules(other_than=path))
    return f"alert rules, {len(content.rules):,} of them"


def _check_tests(path: Path) -> str:
    from trnfleet.services.files.rule_tests import run_tests  # noqa: PLC0415

    count, failures = run_tests(path)
    if failures:
        raise ConfigError(
            f"{path}: {len(failures):,} results differ; trnfleet rules test {path} lists them"
        )
    return f"tests of alert rules, {count:,} of them, all as expected"
