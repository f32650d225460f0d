"""Other people's files to recordings and back, as a user converts them, and failing conversions."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.monitor.feed import START_NS, Feed, SilentSource, standalone, ultraservers
from support.monitor.state import stored_difference
from support.paths import FIXTURES
from support.processes.programs import COMMAND, environment, run
from support.processes.waiting import running, take_until

from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.cli import main
from trnfleet.clock import NS_PER_S, ManualClock, parse_rfc3339
from trnfleet.domain.metrics import BY_NAME, METRICS, Origin
from trnfleet.errors import ConfigError
from trnfleet.monitor.monitor import Monitor
from trnfleet.record.format.lines import decode_lines, encode_line
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.part import PartFile
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.files.conversion import open_recordings
from trnfleet.transport.mqtt import MqttSource
from trnfleet.wire.ports import Envelope, Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess


ONE_CHIP = """
name = "lab"
[[clusters]]
name = "uc1"
instances = [{ type = "trn2.3xlarge", count = 1 }]
"""

LINES = FIXTURES / "mosquitto" / "payload-text.ndjson"
HOST = FIXTURES / "neuron-monitor" / "trn2.48xlarge-lnc2.ndjson"
SMALL_HOST = FIXTURES / "neuron-monitor" / "trn1.2xlarge.ndjson"


def convert(*arguments: str | Path, status: int = 0) -> None:
    assert main.run(["convert", *map(str, arguments)]) == status


def read(path: Path) -> list[Stored]:
    recording = Recording.open([path])
    try:
        return messages(recording)
    finally:
        recording.close()


def messages(recording: Recording) -> list[Stored]:
    return list(recording.read(recording.start_ns - 1, recording.end_ns))


def plain(taken: Iterable[Stored]) -> list[Stored]:
    """Return messages without when they came by this process's clock."""
    return [each._replace(envelope=each.envelope._replace(received_s=0.0)) for each in taken]


def record(path: Path, taken: Iterable[Stored], fleet: str = "demo") -> None:
    writer = RecordingWriter(path, About(id="r", fleets=(fleet,)))
    for time_ns, envelope in taken:
        writer.write(time_ns, envelope)
    writer.close()


def shown(taken: Iterable[Stored], fleet: str) -> Monitor:
    """Return a monitor after applying all messages."""
    monitor = Monitor(SilentSource(), fleet, clock=ManualClock(START_NS, 1_000.0))
    for each in taken:
        monitor.apply([each.envelope._replace(received_s=1_000.0)])
        monitor.compute()
    return monitor


def fed(
    instances: list[tuple[str, str]], *, as_json: bool = False, grouped: bool = False
) -> tuple[Feed, list[Stored]]:
    """Return a fleet, and four ticks of it as they would be recorded."""
    feed = Feed(instances, json=as_json, grouped=grouped)
    taken = [Stored(START_NS, each) for each in feed.announcements()]
    for tick in range(4):
        feed.scatter(seed=tick)
        feed.set("exec_completed", 1_000 * tick)
        ts_ns = START_NS + tick * NS_PER_S
        taken += [
            Stored(ts_ns + number, each) for number, each in enumerate(feed.telemetry(ts_ns=ts_ns))
        ]
    return feed, plain(taken)


def test_lines_of_mosquitto_sub_become_a_recording_and_lines_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages survive both ways, and stderr lists the exceptions."""
    convert(LINES, tmp_path / "a.mcap")
    told = capsys.readouterr().err
    convert(tmp_path / "a.mcap", tmp_path / "b.ndjson")

    with LINES.open("rb") as first, (tmp_path / "b.ndjson").open("rb") as second:
        theirs = list(decode_lines(first))
        ours = list(decode_lines(second))
    assert len(theirs) == 10
    assert plain(read(tmp_path / "a.mcap")) == theirs == ours
    assert "payload-text.ndjson: 10 messages, 1 left out (first line 10: not JSON" in told
    about = Recording.open([tmp_path / "a.mcap"]).abouts[0]
    assert (about.fleets, about.root, about.started) == (
        ("demo",),
        "trnfleet",
        "2026-11-21T14:50:50.732Z",
    )


@pytest.mark.parametrize("as_json", [True, False])
def test_a_recording_survives_lines(tmp_path: Path, *, as_json: bool) -> None:
    """Frames pass through lines as base64 with equal messages, times and monitor state."""
    feed, taken = fed(ultraservers(1), as_json=as_json)
    record(tmp_path / "a.mcap", taken)

    convert(tmp_path / "a.mcap", tmp_path / "a.jsonl")
    convert(tmp_path / "a.jsonl", tmp_path / "b.mcap")

    assert plain(read(tmp_path / "b.mcap")) == taken
    assert (
        stored_difference(
            shown(read(tmp_path / "b.mcap"), feed.fleet).store, shown(taken, feed.fleet).store
        )
        == []
    )


def test_the_same_file_gives_the_same_recording(tmp_path: Path) -> None:
    """A conversion does not depend on its time, and finds another root by itself."""
    text = LINES.read_bytes().replace(b'"trnfleet/v1', b'"site/a/v1')
    (tmp_path / "in.ndjson").write_bytes(text)
    convert(tmp_path / "in.ndjson", tmp_path / "a.mcap")
    convert(tmp_path / "in.ndjson", tmp_path / "b.mcap")

    assert (tmp_path / "a.mcap").read_bytes() == (tmp_path / "b.mcap").read_bytes()
    about = Recording.open([tmp_path / "a.mcap"]).abouts[0]
    assert (about.fleets, about.root) == (("demo",), "site/a")


def test_a_neuron_monitor_file_is_shown_as_a_real_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay has the host's values at the sum of its real periods.

    It begins at --start.
    """
    convert(
        HOST,
        tmp_path / "a.mcap",
        "--start",
        "2026-01-05T09:00:00Z",
        "--as",
        "uc2/standalone/host-7",
        "--name",
        "lab",
    )
    told = capsys.readouterr().err
    reader = HostReader()
    for line in HOST.read_bytes().splitlines():
        reader.read(line)
    taken = read(tmp_path / "a.mcap")

    monitor = shown(taken, "lab")

    path = "uc2/standalone/host-7"
    assert monitor.store.layout.instances == (path,)
    for name, codes in reader.columns.items():
        assert np.array_equal(monitor.store.columns[name], codes), name
    described = monitor.ingest.descriptors.whole(path)
    assert described is not None
    assert (described[0].origin, described[1].ec2_id) == ("neuron", "i-0f1e2d3c4b5a69788")
    begin = parse_rfc3339("2026-01-05T09:00:00Z")
    assert [each.time_ns - begin for each in taken] == [1_000_000_000] * 3 + [
        2_000_200_000,
        *[3_000_400_000] * 2,  # with an event of failed executions
        4_000_600_000,
    ]
    assert monitor.store.chip_ts_ns[0] == begin + 4_000_600_000
    assert "begins at 2026-01-05T09:00:00.000Z" in told
    assert "4 documents;" in told


def test_without_start_a_host_ends_when_its_file_was_written(tmp_path: Path) -> None:
    """Documents without times end at the file's date, and JSON becomes lines."""
    source = tmp_path / "host.ndjson"
    source.write_bytes(SMALL_HOST.read_bytes())
    os.utime(source, ns=(START_NS, START_NS))

    result = run("convert", str(source), "-")

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0
    assert (
        "documents have no time: taken to begin at 2026-01-04T23:59:55.999Z, by the file's date"
        in result.stderr
    )
    assert lines[-1]["tst"] == "2026-01-05T00:00:00.000000Z+0000"
    assert json.loads(lines[-1]["payload"])["nc_util_pct"][:2] == [63.5, 63.5]
    assert (
        lines[-1]["topic"]
        == "trnfleet/v1/neuron/telemetry/uc1/standalone/i-0a1b2c3d4e5f60718/chip00"
    )


@pytest.mark.parametrize(("as_json", "grouped"), [(True, False), (False, False), (False, True)])
def test_an_instance_becomes_neuron_monitor_documents(
    tmp_path: Path, *, as_json: bool, grouped: bool
) -> None:
    """One of several instances becomes documents, and their values survive reading.

    From JSON or from frames of any granularity.
    """
    feed, taken = fed(ultraservers(1), as_json=as_json, grouped=grouped)
    record(tmp_path / "a.mcap", taken)
    path = feed.layout.instances[2]

    convert(
        tmp_path / "a.mcap", tmp_path / "out.ndjson", "--to", "neuron-monitor", "--instance", path
    )

    reader = HostReader()
    for line in (tmp_path / "out.ndjson").read_bytes().splitlines():
        reader.read(line)
    assert (reader.kind.name, reader.lnc, reader.host, reader.period_s) == (
        "trn2u.48xlarge",
        2,
        path.rpartition("/")[2],
        1.0,
    )
    for metric in METRICS:
        if metric.real_host is Origin.MEASURED and "neuron-monitor" in metric.real_source:
            rows = (
                feed.columns[metric.name][32:48]
                if metric.scope == "chip"
                else feed.columns[metric.name][2:3]
            )
            # A recording begins in the middle of things: what was done before is not known.
            expected = rows - 0 if metric.name != "exec_completed" else np.full(16, 3_000)
            assert np.array_equal(reader.columns[metric.name], expected), metric.name


def test_a_hosts_telemetry_may_be_json_in_a_recording(tmp_path: Path) -> None:
    """--format json gives an object a chip and one of the instance for each document.

    One document has an event of failed executions, too.
    """
    convert(HOST, tmp_path / "a.mcap", "--format", "json")

    assert len(read(tmp_path / "a.mcap")) == 2 + 4 * 17 + 1


def test_through_a_pipe(tmp_path: Path) -> None:
    """Stdin's format is recognised by content, and a reader of stdout may leave early."""
    result = subprocess.run(
        [*COMMAND, "convert", "-", str(tmp_path / "a.mcap")],
        input=LINES.read_bytes(),
        capture_output=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith(b"stdin: 10 messages, 1 left out")
    assert len(read(tmp_path / "a.mcap")) == 10

    feed, taken = fed(ultraservers(2), as_json=True)
    record(tmp_path / "big.mcap", taken * 10, feed.fleet)
    with subprocess.Popen(
        [*COMMAND, "convert", str(tmp_path / "big.mcap"), "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()
        assert process.wait(timeout=30) == 0, complaint
        assert b"Traceback" not in complaint


def test_any_file_opens_as_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines and hosts are converted on opening, hosts of a fleet merged by time.

    Nothing is left behind.
    """
    reported: list[str] = []
    record(tmp_path / "a.mcap", fed(standalone(1))[1])
    direct = open_recordings([tmp_path / "a.mcap"], reported.append)
    assert direct.fleets == ("demo",)
    direct.close()

    lines = open_recordings([LINES], reported.append)
    assert len(messages(lines)) == 10
    assert lines.fleets == ("demo",)
    assert "1 left out" in reported[-1]
    lines.close()

    # A folder of this test alone: others make theirs in the usual one at the same time.
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    written = [tmp_path / HOST.name, tmp_path / SMALL_HOST.name]
    for source, copy in zip((HOST, SMALL_HOST), written, strict=True):
        copy.write_bytes(source.read_bytes())
        os.utime(copy, ns=(START_NS, START_NS + 4_000_600_000))
    hosts = open_recordings(written, reported.append, name="lab")
    assert "by the file's date (trnfleet convert --start says otherwise)" in "\n".join(reported)
    taken = messages(hosts)
    assert [each.time_ns for each in taken] == sorted(each.time_ns for each in taken)
    begin = parse_rfc3339("2026-01-05T00:00:00Z")
    small = [each.time_ns - begin for each in taken if "i-0a1b2c3d4e5f60718" in each.envelope.topic]
    assert small == [NS_PER_S] * 3 + [2_000_200_000, 3_000_400_000, 4_000_600_000]
    assert hosts.fleets == ("lab",)
    monitor = shown(taken, "lab")
    assert len(monitor.store.layout.instances) == 2
    assert monitor.counts.lost == monitor.counts.undescribed == 0
    hosts.close()
    del hosts, lines
    gc.collect()
    assert not list(temporary.iterdir())

    with pytest.raises(
        ConfigError, match=r"payload-text\.ndjson: not a recording, unlike the others"
    ):
        open_recordings([tmp_path / "a.mcap", LINES], reported.append)


def test_what_was_known_at_the_begin_goes_along(tmp_path: Path) -> None:
    """A later part's initial state becomes lines; its repeated telemetry does not."""
    feed, taken = fed(standalone(1))
    writer = RecordingWriter(
        tmp_path / "night.mcap", About(id="r", fleets=("demo",)), split_ns=NS_PER_S + 1
    )
    for time_ns, envelope in taken:
        writer.write(time_ns, envelope)
    writer.close()
    last = writer.parts[-1]
    assert len(writer.parts) > 1
    assert all("/telemetry/" in each.envelope.topic for each in read(last))

    convert(last, tmp_path / "last.ndjson")

    with (tmp_path / "last.ndjson").open("rb") as stream:
        got = list(decode_lines(stream))
    assert [each.envelope for each in got[:2]] == [each.envelope for each in taken[:2]]
    assert got[2:] == plain(read(last))
    assert stored_difference(shown(got, feed.fleet).store, feed.monitor.store) != []
    assert stored_difference(shown(got, feed.fleet).store, shown(taken, feed.fleet).store) == []


@contextlib.contextmanager
def mosquitto_sub(mosquitto: MosquittoProcess, output: Path) -> Iterator[None]:
    """Run the real program, writing all messages as lines."""
    arguments = ("-p", str(mosquitto.port), "-V", "5", "-q", "1", "-t", "trnfleet/#", "-F", "%j")
    with (
        output.open("wb") as file,
        subprocess.Popen(["mosquitto_sub", *arguments], stdout=file) as process,
    ):
        try:
            time.sleep(0.3)  # it does not say when it has subscribed
            yield
            time.sleep(0.3)  # nor when it has written
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.mark.broker
async def test_mosquitto_subs_lines_give_the_store_of_a_recording(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """mosquitto_sub's lines of JSON telemetry give the same store as a recording."""
    (tmp_path / "lab.toml").write_text(ONE_CHIP)
    output = tmp_path / "theirs.ndjson"
    source = MqttSource(mosquitto.url, [("trnfleet/#", 1)])
    async with running(source.run()):
        await source.wait_connected(10)
        with mosquitto_sub(mosquitto, output):
            run(
                "simulate",
                "--broker",
                str(mosquitto.url),
                "--fleet",
                str(tmp_path / "lab.toml"),
                "--format",
                "json",
                "--period",
                "200ms",
                "--ticks",
                "5",
            )
        taken = await take_until(source, _has_ended, within_s=30)
    record(
        tmp_path / "ours.mcap",
        [Stored(round(each.received_s * 1e9), each) for each in taken],
        "lab",
    )

    convert(output, tmp_path / "theirs.mcap")

    ours = read(tmp_path / "ours.mcap")
    others = read(tmp_path / "theirs.mcap")
    assert [each.envelope.topic for each in ours] == [each.envelope.topic for each in others]
    assert [each.envelope.payload for each in ours] == [each.envelope.payload for each in others]
    assert [each.envelope.content_type for each in ours] == [
        each.envelope.content_type for each in others
    ]
    one = shown(ours, "lab")
    other = shown(others, "lab")
    assert one.store.layout.chips == 1
    assert not np.isnan(BY_NAME["power_w"].decode(one.store.columns["power_w"])).any()
    assert stored_difference(one.store, other.store) == []
    assert one.counts.messages == other.counts.messages == 10


def _has_ended(batch: list[Envelope]) -> bool:
    return any(b'"offline"' in each.payload for each in batch)


@pytest.mark.broker
def test_our_lines_are_those_of_mosquitto_sub(mosquitto: MosquittoProcess) -> None:
    """Our lines have the keys and types of mosquitto_sub's own lines."""
    envelope = fed(standalone(1), as_json=True)[1][-1].envelope
    ours: dict[str, Any] = json.loads(
        encode_line(Stored(START_NS, envelope._replace(qos=1, retain=True)))
    )
    subprocess.run(
        [
            "mosquitto_pub",
            "-p",
            str(mosquitto.port),
            "-V",
            "5",
            "-q",
            "1",
            "-r",
            "-t",
            envelope.topic,
            "-s",
            "-D",
            "publish",
            "content-type",
            "application/json",
        ],
        input=envelope.payload,
        timeout=20,
        check=True,
    )
    heard = subprocess.run(
        [
            "mosquitto_sub",
            "-p",
            str(mosquitto.port),
            "-V",
            "5",
            "-q",
            "1",
            "-t",
            "trnfleet/#",
            "-F",
            "%j",
            "-C",
            "1",
        ],
        capture_output=True,
        timeout=20,
        check=True,
    )
    theirs = json.loads(heard.stdout)

    assert list(ours) == list(theirs)
    assert ours | {"tst": "", "mid": 0} == theirs | {"tst": "", "mid": 0}
    assert len(ours["tst"]) == len(theirs["tst"])


def test_binary_lines_are_told_for_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fleet that publishes frames cannot be had from mosquitto_sub's %j: the reason is said."""
    lines = tmp_path / "frames.ndjson"
    lines.write_bytes(
        b'{"tst":"2026-01-05T12:00:00.000000Z+0000","topic":"t","payload":"\xa3\x01\xff"}\n' * 50
    )

    convert(lines, tmp_path / "a.mcap", status=2)

    assert (
        "first line 1: not JSON: not UTF-8 text; mosquitto_sub's %j does not keep"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "a.mcap").exists()


def test_which_instance_must_be_said_where_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several instances, an unknown one or an unknown fleet: one line, and no output file."""
    record(tmp_path / "a.mcap", fed(standalone(2))[1])
    out = tmp_path / "out.ndjson"
    for more, expected in (
        ((), "2 instances in it: name one with --instance, such as uc1/standalone/trn2-0001"),
        (("--instance", "uc1/standalone/trn2-0003"), "did you mean 'uc1/standalone/trn2-0002'?"),
        (("--name", "demos"), "no fleet 'demos' in it: did you mean 'demo'?"),
    ):
        convert(tmp_path / "a.mcap", out, "--to", "neuron-monitor", *more, status=2)
        told = capsys.readouterr().err
        assert expected in told
        assert told.count("\n") == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.mcap"]


def test_wrong_use_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files are only overwritten on request, and contradictory options are refused."""
    there = tmp_path / "there.mcap"
    there.write_bytes(b"precious")
    odd = tmp_path / "odd.txt"
    odd.write_text("hello\n")
    empty = tmp_path / "empty.mcap"
    empty.touch()
    bare = tmp_path / "bare.prom"
    bare.write_text("# TYPE python_info gauge\npython_info 1.0\n")
    unknown = tmp_path / "unknown.ndjson"
    unknown.write_text(SMALL_HOST.read_text().replace("trn1.2xlarge", "trn1.3xlarge"))
    for arguments, expected in (
        ((LINES, there), "there.mcap: is there already; choose another name, or --overwrite"),
        ((LINES, tmp_path / "b.ndjson"), "is mosquitto already: name another with --to"),
        (
            (odd, tmp_path / "b.mcap"),
            "odd.txt: no MCAP, no lines of mosquitto_sub -F %j, no neuron-monitor",
        ),
        ((empty, tmp_path / "b.ndjson"), "empty.mcap: it is empty"),
        ((tmp_path / "none", tmp_path / "b.mcap"), "none: No such file or directory"),
        (
            (LINES, tmp_path / "no" / "b.mcap"),
            f"trnfleet: {tmp_path}/no/b.mcap: there is no folder {tmp_path}/no",
        ),
        (
            (HOST, tmp_path, "--overwrite"),
            f"trnfleet: {tmp_path}: not a regular file, so it is not replaced",
        ),
        ((LINES, tmp_path / ("b" * 300 + ".mcap")), f"{'b' * 300}.mcap: File name too long"),
        ((LINES, "-", "--to", "mcap"), "a recording is not written to stdout"),
        (
            (LINES, tmp_path / "b.mcap", "--as", "a/b/c"),
            "--as is for neuron-monitor alone, and IN is mosquitto",
        ),
        ((LINES, tmp_path / "b.mcap", "--name", "x"), "--name is for neuron-monitor alone"),
        (
            (HOST, tmp_path / "b.mcap", "--instance", "a/b/c"),
            "--instance is for neuron-monitor alone, and OUT is mcap",
        ),
        ((HOST, tmp_path / "b.mcap", "--as", "a/b"), "address 'a/b' has 2 segments"),
        (
            (unknown, tmp_path / "b.mcap"),
            "line 1: unknown instance type 'trn1.3xlarge': did you mean 'trn1.32xlarge'",
        ),
        (
            (HOST, tmp_path / "b.mcap", "--from", "mosquitto"),
            "nothing in it can be converted (first line 1: topic",
        ),
        (
            (bare, "-"),
            (
                "bare.prom: nothing in it can be converted (first line 1: no metrics of"
                " neuron-monitor-prometheus or Neuron Observer)"
            ),
        ),
    ):
        convert(*arguments, status=2)
        told = capsys.readouterr().err
        assert expected in told, arguments
        assert told.count("\n") == 1
    assert there.read_bytes() == b"precious"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "bare.prom",
        "empty.mcap",
        "odd.txt",
        "there.mcap",
        "unknown.ndjson",
    ]

    convert(LINES, there, "--overwrite")
    assert len(read(there)) == 10


def test_what_cannot_be_written_is_told_by_the_name_that_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write error names OUT as the user wrote it, not the temporary name.

    Covers a full disk, and a folder without write permission.
    """
    out = tmp_path / "out.mcap"

    def fill_up(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for written in ("cut", "_write"):
        with monkeypatch.context() as patch:
            patch.setattr(PartFile, written, fill_up)
            convert(LINES, out, status=1)
        told = capsys.readouterr().err
        assert told.startswith(f"trnfleet: {out}: ")
        assert told.endswith("No space left on device\n")
        assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "source", [LINES, SMALL_HOST, FIXTURES / "neuron-monitor" / "damaged.ndjson", None]
)
def test_damaged_files_end_in_a_result_or_in_one_line(
    tmp_path: Path, source: Path | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A randomly cut and altered file is converted in part, or refused."""
    if source is None:
        source = tmp_path / "a.mcap"
        record(source, fed(standalone(1, "trn1.2xlarge"))[1])
    whole = source.read_bytes()
    chance = random.Random(7)  # noqa: S311  for reproducible damage
    for attempt in range(25):
        data = bytearray(whole[: chance.randrange(len(whole))] if attempt % 2 else whole)
        for _ in range(attempt % 7):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        damaged = tmp_path / f"damaged-{attempt}{source.suffix}"
        damaged.write_bytes(bytes(data))
        for target in ("out.mcap", "out.ndjson"):
            if damaged.suffix == ".mcap" and target == "out.mcap":
                continue
            status = main.run(["convert", str(damaged), str(tmp_path / target), "--overwrite"])
            told = capsys.readouterr().err
            assert status in {0, 1, 2}, told
            assert "Traceback" not in told
            assert 1 <= told.count("\n") <= 2, told
            assert told.isprintable() or told.replace("\n", "").isprintable()
