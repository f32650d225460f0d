"""Network faults between a client and its broker.

Packets are lost by iptables in a network namespace of its own, else by a proxy. The kernel's netem
is not needed: `-m statistic` drops packets by chance on loopback, in both directions.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.processes.proxy import TcpProxy

_CLONE_NEWNET = 0x4000_0000
_DELAY_S = 0.3
"""Delay in place of a lost packet: about the time until it is sent again."""
_isolated = False


def isolate() -> bool:
    """Move this process and its children into a network namespace with loopback only.

    Return whether this was possible. Rules of iptables end with the namespace, so that nothing
    stays behind whatever happens.
    """
    global _isolated  # noqa: PLW0603  a process is in one namespace
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "iptables"))):
        return False
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        return False
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    _isolated = subprocess.run(
        _rule("-C", 1, 0.5, "--dport"), capture_output=True, check=False
    ).returncode in {0, 1}
    return _isolated


def loses_packets() -> bool:
    """Return whether packets can be lost; else the proxy holds and delays."""
    return _isolated


def _rule(action: str, port: int, share: float, side: str) -> list[str]:
    chance = (
        ["-m", "statistic", "--mode", "random", "--probability", f"{share:g}"] if share < 1 else []
    )
    return ["iptables", "-w", action, "INPUT", "-p", "tcp", side, str(port), *chance, "-j", "DROP"]


@contextlib.contextmanager
def lossy(proxy: TcpProxy, share: float) -> Iterator[None]:
    """Lose a share of a client's packets in both directions.

    1 is a partition.
    """
    if not _isolated:
        proxy.is_held, proxy.delay_s = share >= 1, 0.0 if share >= 1 else _DELAY_S
        try:
            yield
        finally:
            proxy.mend()
        return
    with contextlib.ExitStack() as stack:
        for side in ("--dport", "--sport"):
            subprocess.run(_rule("-A", proxy.port, share, side), check=True)
            stack.callback(subprocess.run, _rule("-D", proxy.port, share, side), check=True)
        yield
