"""`make brokers`: all cases with all brokers, and the table of docs/brokers.md."""

from __future__ import annotations

import sys

import pytest
from support.paths import ROOT

from lab.brokers.table import Cell, missing, table, write


class Results:
    """Collects what the tests of the table record."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str], Cell] = {}
        self.versions: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the cell of a finished test."""
        if report.when != "call":
            return
        for key, value in report.user_properties:
            if key == "cell":
                broker, version, case, text, passed = str(value).split("\t")
                self.versions[broker] = version
                self.cells[broker, case] = Cell(text, passed == "1")


def main() -> int:
    """Run the cases, and return the exit status.

    The table is written if every broker was there.
    """
    results = Results()
    folder = ROOT / "tests" / "broker" / "matrix"
    options = ["-m", "broker or brokers", "--reruns", "0", "-p", "no:cacheprovider", *sys.argv[1:]]
    status = pytest.main([str(folder), *options], plugins=[results])
    if absent := missing(results.versions):
        sys.stderr.write(f"not there, so docs/brokers.md stays as it is: {', '.join(absent)}\n")
        return int(status) or 1
    write(table(results.versions, results.cells))
    sys.stderr.write("docs/brokers.md: table written\n")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
