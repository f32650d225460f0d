"""Start-up step of a child process: tie it to its parent, then become the program.

The kernel ends the child with its parent. Run as a script,
`die_with_parent.py PARENT_PID PROGRAM [ARGUMENT...]`, never imported: it uses the standard library
alone, so that it costs a few milliseconds. Doing this between fork and exec in the parent is not
safe where there are threads. Where the kernel cannot do it (macOS), it only becomes the program.

The kernel ends the child with the thread that started it: start it from a thread that stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Replace this process by the program in `arguments`.

    Exit with 1 if the parent is gone.
    """
    parent_pid = int(arguments[0])
    program = arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        # A parent that died before the call above sends no signal any more.
        if os.getppid() != parent_pid:
            sys.exit(1)
    os.execv(program[0], program)  # noqa: S606  the embedding process chose the program; no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
