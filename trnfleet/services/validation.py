"""Validation of files: recordings and lines, fleets, scenarios, alert rules and their tests.

Imports are made for each kind, because a recording needs neither the simulator nor the alert engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError
from trnfleet.services.files.inputs import NOUNS, Kind, detect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NO_PART = (1, 1_000_000_000)
"""A shard of more than a fleet has UltraServers, and so without instances: what is wrong with a file shows without the columns of
its chips and hosts, which take most of the memory."""


def check_messages(path: Path) -> tuple[str, list[str]]:
    """Return the kind of a file of messages, and its problems.

    Raises:
        ConfigError: it cannot be read; `UnknownKindError` where it is no file of messages.
    """
    kind = detect(path)
    if kind is Kind.MCAP:
        from trnfleet.record.read.recording import Recording  # noqa: PLC0415

        recording = Recording.open([path])
        try:
            return f"recording, {recording.statistics().messages:,} messages", recording.verify()
        finally:
            recording.close()
    if kind is Kind.NEURON_LS:
        from trnfleet.bridge.neuron.devices import read_device_list  # noqa: PLC0415

        return f"devices of neuron-ls, {len(read_device_list(path).devices):,} of them", []
    from trnfleet.services.files.conversion import open_input  # noqa: PLC0415

    given = open_input(path, kind, Kind.MCAP)
    count = sum(1 for _ in given.messages())
    problems = [given.skipped.text(NOUNS[kind])] if given.skipped.count else []
    return f"another program's recording, {count:,} messages", problems


def check_document(path: Path, data: Mapping[str, Any]) -> str | None:
    """Return the kind of a TOML file, or None where it is no fleet, scenario, rules or tests of rules.

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

    count, found = run_tests(path)
    if found:
        raise ConfigError(
            f"{path}: {len(found):,} results differ; trnfleet rules test {path} lists them"
        )
    return f"tests of alert rules, {count:,} of them, all as expected"
