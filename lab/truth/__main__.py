"""`make truth`: print how simulated telemetry adds up."""

# ruff: noqa: T201  a report goes to the terminal

from __future__ import annotations

from lab.truth.report import look, sections


def main() -> None:
    """Simulate an hour of every shipped fleet of Trainium2, and print the report."""
    for heading, text in sections(look()):
        print(f"## {heading}\n\n{text}\n")


if __name__ == "__main__":
    main()
