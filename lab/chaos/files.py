"""Damaged recordings and configuration, and every command reading them."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, NamedTuple

from support.monitor.feed import START_NS, Feed, ultraservers
from support.monitor.mutations import originals
from support.paths import CONFIG
from support.processes.forked import ForkedCommands
from support.record.files import write

from lab.chaos.cases import Case, ChaosError
from lab.chaos.messages import ODD_TEXTS
from trnfleet.clock import NS_PER_S
from trnfleet.wire.ports import Stored

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

A_CASE = 8
"""Files of a case."""
BUSY_S = 5
"""Processor time of a command."""
GROWTH_MB = 100.0
HANG_S = 60.0
"""Wall time after which a command counts as hanging, even on a busy machine."""
_NUMBERS = (
    "0",
    "-1",
    "1e308",
    "inf",
    "nan",
    "9223372036854775807",
    "99999999999999999999",
    "0.0000001",
    "1_000_000_000",
)
_VALUES = (
    *_NUMBERS,
    "true",
    '""',
    "[]",
    "{}",
    "[[]]",
    "{a = {b = {}}}",
    "2026-01-05T00:00:00Z",
    "07:32:00",
    "[1, 'a']",
    '"x"',
    '"\\u001b[2J"',
    '"\\u202e"',
    '"[red]"',
    '"../../etc/passwd"',
    '"1e9s"',
    '"-5m"',
    '"random(1e9) of *"',
    "'{0}'",
    "",
)


class Seen(NamedTuple):
    """What came of a case."""

    statuses: dict[int, int]
    """Number of commands by their exit status."""
    busiest_s: float
    grown_mb: float

    def __str__(self) -> str:
        return (
            f"statuses {self.statuses}, at most {self.busiest_s:.1f} s and {self.grown_mb:+.0f} MB"
        )


def run_case(case: Case, folder: Path, files: int = A_CASE) -> Seen:
    """Damage files and let every command read them.

    Raises:
        ChaosError: a command ended otherwise than with 0, 1 or 2 and a line, or took too much.
    """
    random = case.random()
    folder.mkdir(parents=True, exist_ok=True)
    statuses: dict[int, int] = {}
    busiest_s = grown_mb = 0.0
    with ForkedCommands(folder) as forked:
        forked.start("usual", "--version")
        usual_mb = forked.wait()["usual"].peak_mb
        for number in range(files):
            path, commands = _damaged(random, folder, number)
            for which, arguments in enumerate(commands):
                forked.start(f"{number}.{which} {' '.join(arguments)}", *arguments, cpu_s=BUSY_S)
            watchdog = threading.Timer(HANG_S, forked._process.kill)
            watchdog.start()
            try:
                ended = forked.wait()
            except ValueError:
                raise ChaosError(case, f"{path}: a command of {commands} hangs") from None
            finally:
                watchdog.cancel()
            for name, each in ended.items():
                statuses[each.status] = statuses.get(each.status, 0) + 1
                busiest_s = max(busiest_s, each.busy_s)
                grown_mb = max(grown_mb, each.peak_mb - usual_mb)
                said = (
                    f"{name} of {path.read_bytes()[:300]!r} ended with {each.status}:"
                    f" {each.output[-2_000:]!r}"
                )
                if each.status not in {0, 1, 2} or "Traceback" in each.output:
                    raise ChaosError(case, said)
                if each.status and not (0 < len(each.output.strip()) < 20_000):
                    raise ChaosError(case, f"no line, or too many: {said}")
                if "\x1b" in each.output or "\u202e" in each.output:
                    raise ChaosError(case, f"raw: {said}")
    if grown_mb > GROWTH_MB:
        raise ChaosError(case, f"a command took {grown_mb:.0f} MB, over {GROWTH_MB:g}")
    return Seen(dict(sorted(statuses.items())), busiest_s, grown_mb)


def _damaged(random: Random, folder: Path, number: int) -> tuple[Path, list[tuple[str, ...]]]:
    """Write a damaged file, and return it with the commands reading it."""
    kind = random.choice(("mcap", "ndjson", "fleets", "scenarios", "alerts", "settings"))
    if kind in {"mcap", "ndjson"}:
        path = folder / f"{number}.{kind}"
        name = str(path)
        out = str(folder / f"{number}-out")
        path.write_bytes(_bytes_damaged(random, _recording(folder, kind)))
        return path, [
            ("info", name),
            ("check", name),
            ("replay", name, "--stdout", "--name", "demo"),
            ("convert", name, f"{out}.mcap"),
            ("convert", name, f"{out}.ndjson"),
        ]
    path = folder / f"{number}.toml"
    name = str(path)
    source = (
        CONFIG / "trnfleet.toml"
        if kind == "settings"
        else random.choice(sorted((CONFIG / kind).glob("*.toml")))
    )
    text = _text_damaged(random, source.read_text(encoding="utf-8"))
    path.write_bytes(
        _bytes_damaged(random, text.encode(errors="surrogatepass"), at_most=1)
        if random.random() < 0.2
        else text.encode(errors="replace")
    )
    more = {
        "fleets": ("fleet", "describe", name),
        "scenarios": (
            "simulate",
            "--stdout",
            "--scenario",
            name,
            "--ticks",
            "1",
            "--include",
            "events",
        ),
        "alerts": ("rules", "check", name),
        "settings": ("config", "print", "watch", "--profile", "prod", "--config", name),
    }
    return path, [("check", name), more[kind]]


def _recording(folder: Path, kind: str) -> bytes:
    """Return a recording of a few seconds of every class."""
    path = folder / f"whole.{kind}"
    if not path.exists():
        feed = Feed(ultraservers(1))
        feed.scatter()
        stored = [Stored(START_NS, each) for each in originals(feed)]
        for second in range(4):
            time_ns = START_NS + second * NS_PER_S
            stored += [Stored(time_ns, each) for each in feed.telemetry(ts_ns=time_ns)]
        if kind == "mcap":
            write(path, stored)
        else:
            lines = [
                {
                    "tst": "2026-01-05T00:00:00.000000Z+0000",
                    "topic": each.topic,
                    "qos": each.qos,
                    "retain": int(each.retain),
                    "payload": each.payload.decode(),
                }
                for _, each in stored
                if each.payload[:1] == b"{"
            ]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path.read_bytes()


def _bytes_damaged(random: Random, content: bytes, at_most: int = 8) -> bytes:
    data = bytearray(content)
    for _ in range(random.randint(1, at_most)):
        at = random.randrange(len(data) + 1)
        size = random.choice((1, 4, 8, 100, 5_000))
        match random.randrange(6):
            case 0:
                del data[at:]
            case 1:
                del data[at : at + size]
            case 2:
                data[at : at + size] = random.randbytes(size)
            case 3:
                data[at : at + 8] = random.choice((b"\xff" * 8, b"\x00" * 8, b"\xff" * 7 + b"\x7f"))
            case 4:
                data[at:at] = data[:at][-size:]
            case _ if data:
                data[at - 1] ^= 1 << random.randrange(8)
    return bytes(data)


def _text_damaged(random: Random, text: str) -> str:
    lines = text.splitlines()
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        key, is_value, _ = lines[at].partition("=")
        match random.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, random.choice(lines))
            case 2:
                lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
            case 3:
                lines.insert(
                    at,
                    f"{random.choice(('x', 'name', 'v', 'rules', 'fleet'))} ="
                    f" {random.choice(_VALUES)}",
                )
            case 4:
                lines[at] = f"[{random.choice(('x', 'x.y', '[x]', 'rules', 'fleet'))}]"
            case _ if is_value:
                values = (*_VALUES, json.dumps(random.choice(ODD_TEXTS)))
                lines[at] = (
                    f"{key.lstrip('# ') if random.random() < 0.5 else key}= {random.choice(values)}"
                )
        if not lines:
            return ""
    return "\n".join(lines)
