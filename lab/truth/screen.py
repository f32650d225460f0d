"""`make truth-screen`: look for figures with two values on one screen of the live demo.

A sample is read when the app has written nothing for a moment, so that no frame is cut in half.
"""

from __future__ import annotations

import argparse
import sys
import time

from support.processes.terminal import Terminal
from support.tui.figures import contradictions, figures

VIEWS = "1212"
"""Keys of the views with figures in several places. Each is viewed for a quarter of the time."""
EVERY_S = 0.5
QUIET_S = 0.05
"""Without a byte for this time, a frame is whole."""
AGAIN_S = 0.15
"""Within a second; the next values come after it."""


def settled(terminal: Terminal) -> list[str]:
    """Return the screen once nothing is being written."""
    while True:
        before = len(terminal.raw)
        time.sleep(QUIET_S)
        lines = terminal.lines
        if len(terminal.raw) == before:
            return lines


def main() -> int:
    """Read the samples and print contradictions.

    Return 1 if there are any.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--rows", type=int, default=55)
    options = parser.parse_args()
    wrong = compared = 0
    with Terminal(columns=options.columns, rows=options.rows) as terminal:
        terminal.wait_for("all live", "NC util", within_s=60.0)
        for number in range(options.samples):
            key = VIEWS[number * len(VIEWS) // options.samples]
            if number == 0 or key != VIEWS[(number - 1) * len(VIEWS) // options.samples]:
                terminal.send(key)
                time.sleep(2 * EVERY_S)
            due_s = time.monotonic() + EVERY_S
            shown = figures(settled(terminal), with_charts=key == "1")
            compared += len(shown) - len({each.key for each in shown})
            found = contradictions(shown)
            if found:
                # Textual may draw two widgets in two frames; what stays wrong is wrong.
                time.sleep(AGAIN_S)
                found = contradictions(figures(settled(terminal), with_charts=key == "1"))
            wrong += bool(found)
            for line in found:
                sys.stdout.write(f"sample {number}, view {key}: {line}\n")
            time.sleep(max(0.0, due_s - time.monotonic()))
        terminal.end(keys="q")
    sys.stdout.write(
        f"{wrong} of {options.samples} screens have a figure with two values; {compared:,} figures"
        " stood twice\n"
    )
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
