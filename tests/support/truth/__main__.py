"""`make truth`: prints the report, and with --write puts it into docs/telemetry.md."""

# ruff: noqa: T201  a report goes to the terminal

from __future__ import annotations

import argparse
from pathlib import Path

from support.truth.report import look, sections

PAGE = Path(__file__).parents[3] / "docs" / "telemetry.md"
MARK = "<!-- report of make truth -->"


def main() -> None:
    """Simulate an hour of every shipped fleet of Trainium2, and print what its telemetry adds up to."""
    parser = argparse.ArgumentParser(prog="make truth")
    parser.add_argument(
        "--write", action="store_true", help="write the tables into docs/telemetry.md"
    )
    asked = parser.parse_args()
    parts = [f"## {heading}\n\n{text}\n" for heading, text in sections(look())]
    for part in parts:
        print(part)
    if asked.write:
        head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
        PAGE.write_text(f"{head}{MARK}\n\n" + "\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
