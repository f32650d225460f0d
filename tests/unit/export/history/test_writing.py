"""Files of history: whole or not there, each minute once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.history import CHIPS, FIRST, chip_minute, write_minutes

from trnfleet.domain.metrics import JOB_FIGURES
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.export.history.files import (
    FileMark,
    Partition,
    cell_lock,
    day_of,
    file_name,
    is_locked,
    list_files,
    locked,
    parse_file,
    spill_folder,
)
from trnfleet.export.history.query import open_history
from trnfleet.export.history.tables import EVENTS, JOB_MINUTES
from trnfleet.export.history.writing import MOST_DAYS, HistoryWriter

if TYPE_CHECKING:
    from pathlib import Path

PARTITION = Partition("demo", day_of(FIRST), "main")


def test_a_minute_comes_back_with_null_for_what_is_not_known(tmp_path: Path) -> None:
    """Addresses, jobs and figures are read as written."""
    write_minutes(tmp_path, [FIRST])
    with open_history(tmp_path) as history:
        [row] = history.query(
            "SELECT time::VARCHAR, fleet, cell, address, job, covered_s, power_w, tflops,"
            " exec_errors, writer FROM chips WHERE instance = 'trn2u-0001-1' AND chip = 5"
        ).rows
        [(count, jobs)] = history.query("SELECT count(*), count(job) FROM chips").rows

    assert row == (
        "2026-01-05 00:00:00",
        "demo",
        "main",
        "uc1/us-0001/trn2u-0001-1/chip05",
        "train",
        60.0,
        121.0,
        None,
        None,
        "host-a",
    )
    assert (count, jobs) == (CHIPS, CHIPS // 2)


def test_a_file_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    """As recordings can."""
    write_minutes(tmp_path, [FIRST])
    [file] = PARTITION.below(tmp_path).iterdir()

    assert file.name == "chips-20260105T0000Z-20260105T0000Z-host-a.parquet"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_writer_that_starts_again_knows_what_is_written(tmp_path: Path) -> None:
    """Be it in one file or in another."""
    write_minutes(tmp_path, [FIRST, FIRST + 1])
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    try:
        assert [history.is_written(FIRST + each) for each in (0, 1, 2, 5_000)] == [
            True,
            True,
            False,
            False,
        ]
        history.write_chips([chip_minute(FIRST + 2)])
        assert history.is_written(FIRST + 2)
    finally:
        history.close()


def test_ten_minutes_are_totals_means_and_maxima_of_what_was_covered(tmp_path: Path) -> None:
    """An UltraServer's power is its chips' sum; a half covered minute counts half."""
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    try:
        history.write_chips([chip_minute(FIRST, power_w=100.0)])
        history.write_chips([chip_minute(FIRST + 1, power_w=400.0, covered_s=30.0)])
        history.write_rows(
            JOB_MINUTES,
            FIRST,
            [
                (
                    FIRST * 60_000_000,
                    "train",
                    "training",
                    "running",
                    60,
                    *[0.5] * len(JOB_FIGURES),
                    "ns/train",
                )
            ],
        )
        history.roll_up(FIRST)
    finally:
        history.close()
    with open_history(tmp_path) as reader:
        rows = reader.query(
            "SELECT address, minutes, chips, covered_s, power_w, power_w_max, nc_util_pct, tflops,"
            " mem_ecc_corrected_increase FROM ultraservers ORDER BY address"
        ).rows
        job = reader.query(
            "SELECT job, display_name, chips, round(power_w), kind, mfu FROM jobs"
        ).rows
        fleet = reader.query("SELECT chips, round(power_w) FROM fleets").rows

    base = sum(range(64)) + 64 * (100 * 60 + 400 * 30) / 90
    assert rows[0] == ("uc1/us-0001", 2, 64, 64 * 90.0, pytest.approx(base), 468.0, 50.0, None, 128)
    assert job == [("train", "ns/train", 64, round(base), "training", 0.5)]
    assert fleet == [(128, round(2 * base + 64 * 64))]


def test_events_of_one_minute_are_all_there_and_each_once(tmp_path: Path) -> None:
    """However often they are written, as from a repeated recording."""
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    rows: list[tuple[object, ...]] = [
        (FIRST * 60_000_000, "critical", "kernel", "nrt", f"uc1/{each}", None, None, "text")
        for each in "ab"
    ]
    try:
        for given in (rows[:1], rows[1:], rows):
            history.write_rows(EVENTS, FIRST, given)
    finally:
        history.close()
    with open_history(tmp_path) as reader:
        assert reader.query("SELECT address, job FROM events ORDER BY 1").rows == [
            ("uc1/a", None),
            ("uc1/b", None),
        ]


def test_texts_are_kept_as_they_came_and_what_does_not_fit_is_null(tmp_path: Path) -> None:
    """No row blocks later ones."""
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    text = "\x1b[2J nul \0 quote ' \N{ZERO WIDTH JOINER} 'x'); COPY"
    try:
        history.write_rows(EVENTS, FIRST, [(10**30, "info", "k", text, "", None, 10**12, text)])
        history.write_rows(EVENTS, FIRST, [(0, "info", "k", "n", "", "", -5, "")])
    finally:
        history.close()
    with open_history(tmp_path) as reader:
        rows = reader.query("SELECT time IS NULL, name, nrt, text FROM events ORDER BY 1 DESC").rows

    assert rows == [(True, text, None, text), (False, "n", -5, "")]


def test_a_second_writer_of_a_cell_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    """The lock names its owner, and is free once that is gone."""
    lock = cell_lock(tmp_path, "demo", "main")
    with locked(lock, "the cell", "host-a, process 1"):
        assert is_locked(lock)
        with (
            pytest.raises(TrnfleetError, match="the cell is in use by host-a, process 1") as caught,
            locked(lock, "the cell", "host-b"),
        ):
            pass
    assert not isinstance(caught.value, ConfigError)
    assert not is_locked(lock)
    with locked(lock, "the cell", "host-b"):
        assert lock.read_text() == "host-b\n"


@pytest.mark.parametrize("mark", FileMark)
def test_a_name_says_what_is_in_a_file(tmp_path: Path, mark: FileMark) -> None:
    """And comes back from it."""
    file = parse_file(
        tmp_path / file_name("job_minutes", FIRST, FIRST + 9, "host-a", mark), PARTITION
    )

    assert file is not None
    assert file[1:7] == (
        PARTITION,
        "job_minutes",
        FIRST,
        FIRST + 9,
        "host-a",
        mark is FileMark.MERGED,
    )
    assert parse_file(tmp_path / "chips-now-then-host.parquet", PARTITION) is None
    assert (
        parse_file(tmp_path / "cups-20260105T0000Z-20260105T0000Z-host-a.parquet", PARTITION)
        is None
    )
    assert (
        parse_file(tmp_path / "chips-20261305T0000Z-20260105T0000Z-host-a.parquet", PARTITION)
        is None
    )


def test_what_a_killed_writer_left_is_no_file_of_history(tmp_path: Path) -> None:
    """A temporary name is not read."""
    write_minutes(tmp_path, [FIRST])
    (
        PARTITION.below(tmp_path) / ".chips-20260105T0001Z-20260105T0001Z-host-a.parquet.tmp"
    ).write_bytes(b"PAR1")
    files, foreign = list_files(tmp_path, PARTITION)

    assert (len(files), foreign) == (1, [])


def test_a_writer_that_starts_deletes_nothing_of_a_cell_with_a_similar_name(tmp_path: Path) -> None:
    """Only spill files of a killed run of the same cell are deleted.

    However names are composed.
    """
    for fleet, cell in (("prod-eu", "main"), ("prod", "eu-main")):
        (spill_folder(tmp_path, fleet, cell) / "block").mkdir(parents=True)
    HistoryWriter(tmp_path, "prod", "eu-main", "host-a").close()
    assert (spill_folder(tmp_path, "prod-eu", "main") / "block").exists()
    assert not spill_folder(tmp_path, "prod", "eu-main").exists()


def test_days_that_are_long_over_are_forgotten_and_read_from_their_files_again(
    tmp_path: Path,
) -> None:
    """A writer remembers a few days, and reads a forgotten day's minutes again."""
    days = [FIRST + 1_440 * number for number in range(MOST_DAYS + 1)]
    write_minutes(tmp_path, [days[0], days[0] + 1])
    history = HistoryWriter(tmp_path, "demo", "main", "host-a")
    try:
        assert [history.is_written(minute) for minute in days] == [True, *[False] * MOST_DAYS]
        # The first day is forgotten by now: a late minute of it that is written must not be all
        # that is known of it.
        history.write_chips([chip_minute(days[0] + 2)])
        assert [history.is_written(days[0] + number) for number in range(4)] == [
            True,
            True,
            True,
            False,
        ]
        for file in PARTITION.below(tmp_path).iterdir():
            file.unlink()
        assert history.is_written(days[0])
        for minute in days[1:]:
            history.is_written(minute)
        assert not history.is_written(days[0])
    finally:
        history.close()
