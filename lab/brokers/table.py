"""Brokers of the table, and its text in docs/brokers.md from a run's results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from support.paths import ROOT

from lab.brokers.activemq import ActiveMq
from lab.brokers.aedes import Aedes
from lab.brokers.cases import CASES
from lab.brokers.ejabberd import Ejabberd
from lab.brokers.fallback import Fallback
from lab.brokers.limits import LIMITS
from lab.brokers.mosquitto import Mosquitto
from lab.brokers.nats import Nats, NatsCluster
from lab.brokers.rabbitmq import RabbitMq

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.brokers.process import BrokerProcess

BROKERS: tuple[type[BrokerProcess], ...] = (
    Mosquitto,
    Nats,
    NatsCluster,
    Fallback,
    Ejabberd,
    ActiveMq,
    Aedes,
    RabbitMq,
)
IN_THE_SUITE = (Mosquitto, Nats, Fallback)
"""Brokers for the cases in `make test`."""
PAGE = ROOT / "docs" / "brokers.md"
BEGIN = "<!--brokers-->\n"
END = "<!--/brokers-->"


class Cell(NamedTuple):
    """A result of a run."""

    text: str
    passed: bool


def table(versions: Mapping[str, str], cells: Mapping[tuple[str, str], Cell]) -> str:
    """Return the table with the notes below it.

    Args:
        versions: Versions by broker name. A missing broker has no column.
        cells: Results by broker and case names.
    """
    names = [each.name for each in BROKERS if each.name in versions]
    notes: dict[str, int] = {}
    rows = [["case", *(f"{name} {versions[name]}" for name in names)], ["---"] * (len(names) + 1)]
    for case in CASES:
        row = [case.title]
        for name in names:
            limit = LIMITS.get((name, case.name))
            if limit is not None:
                row.append(f"no ({notes.setdefault(limit, len(notes) + 1)})")
            else:
                cell = cells[name, case.name]
                row.append(cell.text or "yes" if cell.passed else "FAILED")
        rows.append(row)
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return (
        "\n".join([*lines, "", *(f"{number}. {note}" for note, number in notes.items())]).rstrip()
        + "\n"
    )


def write(text: str) -> None:
    """Put a table between its marks in the page."""
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    PAGE.write_text(head + BEGIN + text + END + rest.split(END, 1)[1], encoding="utf-8")


def missing(versions: Iterable[str]) -> list[str]:
    """Return the brokers without a result."""
    there = set(versions)
    return [each.name for each in BROKERS if each.name not in there]
