"""Queries of history: only below the folder, and read-only."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support.history import CHIPS, FIRST, write_minutes

from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.export.history.catalogue import MISDATED, REPLACES_KEY, SCHEMA_KEY
from trnfleet.export.history.compact import compact
from trnfleet.export.history.database import Database, HistoryError
from trnfleet.export.history.files import Partition, day_of
from trnfleet.export.history.query import HistoryFigure, HistoryReader, open_history

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTITION = Partition("demo", day_of(FIRST), "main")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of three minutes."""
    made = tmp_path_factory.mktemp("history")
    write_minutes(made, range(FIRST, FIRST + 3))
    return made


@pytest.fixture
def history(folder: Path) -> Iterator[HistoryReader]:
    """Yield a reader of them."""
    with open_history(folder) as reader:
        yield reader


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '/tmp/trnfleet-reached-out.csv'",
        "ATTACH '/tmp/trnfleet-reached-out.db'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{folder}/../../../../../../etc/passwd')",
        "SELECT * FROM 'https://example.invalid/x.parquet'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '90GB'",
        "EXPORT DATABASE '/tmp/trnfleet-reached-out'",
    ],
)
def test_duckdb_itself_refuses_what_reaches_out(folder: Path, sql: str) -> None:
    """The connection is locked down for every statement."""
    database = Database(folder)
    try:
        with pytest.raises(HistoryError) as caught:
            database.run(sql.format(folder=folder))
    finally:
        database.close()
    assert "\n" not in str(caught.value)
    assert any(each in str(caught.value) for each in ("disabled", "locked"))


@pytest.mark.parametrize(
    "sql",
    [
        "COPY chips TO '{folder}/evil.parquet'",
        "EXPLAIN ANALYZE COPY chips TO '{folder}/evil.parquet'",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW chips",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "",
    ],
)
def test_only_one_statement_that_reads_is_run(
    history: HistoryReader, folder: Path, sql: str
) -> None:
    """Within the folder nothing is written, either."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(ConfigError):
        history.query(sql.format(folder=folder))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT powr_w FROM chips", "no column 'powr_w' in chips: did you mean 'power_w'?"),
        ("SELECT chips.tflop FROM chips", "no column 'tflop' in chips: did you mean 'tflops'?"),
        ("SELECT 1 FROM ultraserver", "no table 'ultraserver': did you mean 'ultraservers'?"),
        ("SELEC 1", "syntax error"),
        (
            "SELECT avg(job) FROM chips",
            "types 'avg(VARCHAR)'. You might need to add explicit type casts.",
        ),
        ("SELECT * FROM read_json('{folder}/x.json')", "No files found"),
    ],
)
def test_an_error_names_the_folder_and_the_nearest_choice(
    history: HistoryReader, folder: Path, sql: str, said: str
) -> None:
    """In one line."""
    with pytest.raises(TrnfleetError) as caught:
        history.query(sql.format(folder=folder))
    assert str(folder) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Candidate" not in str(caught.value)


def test_the_parts_of_a_fleet_in_two_cells_all_count(tmp_path: Path) -> None:
    """Each cell has a row with its own chips.

    Of a cell's two writers one counts.
    """
    for cell, cluster in (("main", "uc1"), ("more", "uc2")):
        for writer in ("host-a", "host-b"):
            write_minutes(
                tmp_path,
                range(FIRST, FIRST + 10),
                writer=writer,
                cell=cell,
                cluster=cluster,
                windows=[FIRST],
            )
    with open_history(tmp_path) as reader:
        found = {
            table: (
                reader.query(f"SELECT count(*), sum(chips), count(DISTINCT cell) FROM {table}").rows  # noqa: S608  names of tables
            )
            for table in ("fleets", "jobs", "ultraservers")
        }
    assert found == {
        "fleets": [(2, 2 * CHIPS, 2)],
        "jobs": [(2, CHIPS, 2)],
        "ultraservers": [(4, 2 * CHIPS, 2)],
    }
    assert reader_doubled(tmp_path) == []


def reader_doubled(folder: Path) -> list[str]:
    """Return what a query names as doubled."""
    with open_history(folder) as reader:
        reader.query("SELECT 1")
        return [str(each) for each in reader.doubled()]


def test_chips_of_two_cells_are_named(tmp_path: Path) -> None:
    """A query and a compaction name both cells.

    A figure of one cell counts them once.
    """
    write_minutes(tmp_path, [FIRST, FIRST + 1], windows=[FIRST])
    write_minutes(tmp_path, [FIRST + 1], cell="west", windows=[FIRST])
    write_minutes(tmp_path, [FIRST + 1], cell="east", cluster="uc2", windows=[FIRST])
    said = (
        "cells main and west of demo both have 128 chips, such as uc1/us-0001/trn2u-0001-0/chip00"
        " at 2026-01-05T00:00:00.000Z: totals count them twice; query one of the cells, or move the"
        " other's files away"
    )
    assert reader_doubled(tmp_path) == [said]
    with open_history(tmp_path) as reader:
        once, all_cells = (
            reader.figure(HistoryFigure("power_w", at="uc1", every_s=600, cell=cell)).rows[0][1]
            for cell in ("west", "")
        )
        assert all_cells == pytest.approx(2 * once)
    lines: list[str] = []
    for _ in range(2):
        compact(
            tmp_path,
            today=PARTITION.day,
            holder="t",
            memory_bytes=2**28,
            threads=1,
            report=lines.append,
        )
    assert [line for line in lines if "both" in line] == [f"{tmp_path}: {said}"]


def test_rows_are_cut_at_a_number_and_that_shows(history: HistoryReader) -> None:
    """Not silently."""
    assert history.query("SELECT chip FROM chips", most=5).is_cut
    assert not history.query("SELECT chip FROM chips LIMIT 5", most=5).is_cut


def test_a_figure_over_time_is_the_sum_of_what_adds_up(history: HistoryReader) -> None:
    """Of a node, in steps, between two times."""
    all_w = history.figure(HistoryFigure("power_w", every_s=60)).rows
    assert [row[1] for row in all_w] == [pytest.approx(CHIPS * 100 + sum(range(CHIPS)))] * 3
    second = history.figure(
        HistoryFigure(
            "power_w",
            at="uc1/us-0002/trn2u-0002-3/chip15",
            from_us=(FIRST + 1) * 60_000_000,
            every_s=60,
        )
    ).rows
    assert [row[1] for row in second] == [pytest.approx(100 + CHIPS - 1)] * 2
    assert history.figure(HistoryFigure("nc_util_pct", at="uc1/us-0001", every_s=120)).rows[0][
        1
    ] == pytest.approx(50)
    assert history.figure(HistoryFigure("power_w_max", every_s=60)).rows[0][1] == CHIPS - 1 + 105
    assert (
        history.figure(HistoryFigure("mem_ecc_corrected_increase", every_s=180)).rows[0][1]
        == 3 * CHIPS
    )
    assert history.figure(HistoryFigure("power_w", fleet="other", every_s=60)).rows == []


def test_the_nodes_that_have_most_come_first(history: HistoryReader) -> None:
    """Chips, or what they are in."""
    assert history.figure(HistoryFigure("power_w", 600, at="uc1/us-0001", top=2)).rows == [
        ("uc1/us-0001/trn2u-0001-3/chip15", pytest.approx(163.0), 3),
        ("uc1/us-0001/trn2u-0001-3/chip14", pytest.approx(162.0), 3),
    ]
    assert [
        row[0]
        for row in history.figure(HistoryFigure("power_w", 600, top=9, nodes="ultraserver")).rows
    ] == [
        "uc1/us-0002",
        "uc1/us-0001",
    ]
    assert history.figure(HistoryFigure("power_w", 600, top=9, nodes="job")).rows == [
        ("train", pytest.approx(64 * 100 + sum(range(64))), 3)
    ]


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        (HistoryFigure("powr_w", 600), "did you mean 'power_w'?"),
        (HistoryFigure("exec_errors", 600), "take exec_errors_increase"),
        (HistoryFigure("power_w", 600, at="uc1//x"), "does not match"),
        (HistoryFigure("power_w", 600, at="uc1/us-0001/h/chip05/nc1"), "NeuronCores"),
        (HistoryFigure("power_w", 600, at="uc1/us-0001/h/five"), "write it as chip05"),
    ],
)
def test_a_figure_that_there_is_not_is_refused(
    history: HistoryReader, figure: HistoryFigure, said: str
) -> None:
    """With what there is."""
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        history.figure(figure)


def test_an_empty_folder_has_all_views_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    """A query of nothing gives nothing."""
    with open_history(tmp_path) as reader:
        assert (
            reader.query(
                "SELECT address, power_w FROM chips UNION ALL SELECT address, 1 FROM events"
            ).rows
            == []
        )
    with pytest.raises(ConfigError, match="no such folder"):
        HistoryReader(tmp_path / "none")


def test_torn_foreign_and_newer_files_are_left_out_and_named(tmp_path: Path) -> None:
    """Sound files are read as if the others did not exist."""
    write_minutes(tmp_path, range(FIRST, FIRST + 4))
    below = PARTITION.below(tmp_path)
    files = sorted(below.iterdir())
    torn = files[0]
    footer = files[1]
    damaged = files[2]
    torn.write_bytes(torn.read_bytes()[:-100])
    whole = footer.read_bytes()
    footer.write_bytes(whole[:-400] + bytes(391) + b"\0" + whole[-8:])
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:4] + b"\xff" * (len(whole) // 2) + whole[4 + len(whole) // 2 :])
    (below / "notes.parquet").write_bytes(b"text")
    database = Database(tmp_path)
    newer = below / files[3].name.replace("host-a", "host-b")
    database.copy("SELECT 1 AS x", newer, {SCHEMA_KEY: "99"})
    foreign = below / files[3].name.replace("host-a", "host-c")
    database.copy("SELECT 1 AS x", foreign, {"made_by": "someone"})
    database.close()
    with open_history(tmp_path) as reader:
        [(count, power_w)] = reader.query("SELECT count(*), sum(power_w) FROM chips").rows
        left_out = {each.path.name: each.why for each in reader.left_out}

    assert (count, power_w) == (CHIPS, pytest.approx(CHIPS * 100 + sum(range(CHIPS))))
    assert left_out.keys() == {each.name for each in (torn, footer, damaged, newer, foreign)} | {
        "notes.parquet"
    }
    assert left_out[torn.name].startswith("torn")
    assert "schema version 99" in left_out[newer.name]


FOREIGN = {
    "no-JSON": ("*", {REPLACES_KEY: "{"}, "not a list of files"),
    "an-object": ("*", {REPLACES_KEY: '{"a": 1}'}, "not a list of files"),
    "numbers": ("*", {REPLACES_KEY: "[1]"}, "not a list of files"),
    "a-file-elsewhere": ("*", {REPLACES_KEY: '["../x.parquet"]'}, "not a list of files"),
    "deep-JSON": ("*", {REPLACES_KEY: "[" * 100_000}, "not a list of files"),
    "many-digits": ("*", {SCHEMA_KEY: "9" * 5_000}, "schema version 999999999..."),
    "an-Arabic-digit": ("*", {SCHEMA_KEY: "\u0661"}, "no file of history"),
    "a-text-column": ("* REPLACE ('hot' AS power_w)", {}, "column power_w is VARCHAR, not FLOAT"),
    "a-wide-column": (
        "* REPLACE (power_w::DOUBLE AS power_w)",
        {},
        "column power_w is DOUBLE, not FLOAT",
    ),
    "a-list": ("* REPLACE ([job] AS job)", {}, "column job is VARCHAR[], not VARCHAR"),
    "no-key": ("* EXCLUDE (time)", {}, "no column time"),
    "a-column-of-the-path": ("*, 'x' AS Cell", {}, "column Cell clashes"),
    "an-infinite-time": ("* REPLACE ('infinity'::TIMESTAMP AS time)", {}, MISDATED),
    "a-far-time": ("* REPLACE (make_timestamp(9223372036854775806) AS time)", {}, MISDATED),
    "an-early-time": ("* REPLACE (make_timestamp(-1) AS time)", {}, MISDATED),
    "no-time": ("* REPLACE (NULL::TIMESTAMP AS time)", {}, MISDATED),
    # A newer version's column is none of ours.
    "another-column": ("*, 1 AS glow", {}, ""),
}


def test_foreign_files_among_sound_ones_are_left_out(tmp_path: Path) -> None:
    """Queries, compactions and a writer continue without them; they stay in place."""
    write_minutes(tmp_path, [FIRST, FIRST + 1])
    below = PARTITION.below(tmp_path)
    source = f"read_parquet('{min(below.iterdir())}', hive_partitioning = false)"
    database = Database(tmp_path)
    names = {}
    for kind, (columns, metadata, why) in FOREIGN.items():
        name = f"chips-20260105T0000Z-20260105T0001Z-{kind}.c-00000000.parquet"
        sql = f"SELECT {columns} FROM {source}"  # noqa: S608  the test's own
        database.copy(sql, below / name, {SCHEMA_KEY: "1", **metadata})
        names[name] = why
    database.close()
    lines: list[str] = []
    for _ in range(2):
        with open_history(tmp_path) as reader:
            sums = (
                "SELECT sum(power_w), count(DISTINCT time), typeof(any_value(power_w)) FROM chips"
            )
            assert reader.query(sums).rows == [(2 * (CHIPS * 100 + sum(range(CHIPS))), 2, "FLOAT")]
            left_out = {each.path.name: each.why for each in reader.left_out}
        assert left_out.keys() == {name for name, why in names.items() if why}
        assert [name for name, why in left_out.items() if names[name] not in why] == []
        compact(
            tmp_path,
            today=PARTITION.day,
            holder="test",
            memory_bytes=2**28,
            threads=1,
            report=lines.append,
        )
        assert all((below / name).exists() for name in names)
    assert "1 file kept as written" in lines[-1]
    write_minutes(tmp_path, [FIRST + 2], windows=[FIRST])


def test_what_is_no_regular_file_is_left_out(tmp_path: Path) -> None:
    """A pipe without a writer blocks nobody; a broken link is left out."""
    write_minutes(tmp_path, [FIRST])
    below = PARTITION.below(tmp_path)
    sound = min(below.iterdir())
    names = [
        f"chips-20260105T0001Z-20260105T0001Z-{kind}.parquet" for kind in ("pipe", "folder", "link")
    ]
    os.mkfifo(below / names[0])
    (below / names[1]).mkdir()
    (below / names[2]).symlink_to(tmp_path / "nothing")
    for odd in (
        "fleet=a b/day=2026-01-05/cell=x",
        "fleet=demo/day=20260105/cell=main",
        "fleet=demo/day=2026-01-05/cell=\udcff",
    ):
        (tmp_path / odd).mkdir(parents=True)
        shutil.copy(sound, tmp_path / odd / sound.name)
    with open_history(tmp_path) as reader:
        assert reader.query("SELECT count(*) FROM chips").rows == [(CHIPS,)]
        left_out = {each.path.name: each.why for each in reader.left_out}
    assert [left_out[name] for name in names] == [
        "not a regular file",
        "not a regular file",
        "a link to a file that is missing",
    ]


def test_two_writers_of_one_cell_count_once_and_who_covers_most_counts(tmp_path: Path) -> None:
    """Rows of both are there, told apart by writer."""
    write_minutes(tmp_path, [FIRST, FIRST + 1], writer="host-a", covered_s=20.0)
    write_minutes(tmp_path / "other", [FIRST + 1, FIRST + 2], writer="host-b", covered_s=60.0)
    for file in PARTITION.below(tmp_path / "other").iterdir():
        file.rename(PARTITION.below(tmp_path) / file.name)
    with open_history(tmp_path) as reader:
        rows = reader.query(
            "SELECT time, writer, count(*), min(covered_s) FROM chips GROUP BY ALL ORDER BY 1"
        ).rows

    assert [row[1:] for row in rows] == [
        ("host-a", CHIPS, 20.0),
        ("host-b", CHIPS, 60.0),
        ("host-b", CHIPS, 60.0),
    ]


def test_a_query_without_end_is_ended(folder: Path, history: HistoryReader) -> None:
    """And the next one is answered."""
    sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i % 9 FROM n) SELECT count(*) FROM n"
    with pytest.raises(HistoryError) as raised:
        history.query(sql, limit_s=0.2)
    assert (
        str(raised.value)
        == f"{folder}: the query took longer than 200 ms: ask for less time, compact the folder, or"
        " raise --time-limit"
    )
    assert history.query("SELECT count(*) FROM chips", limit_s=60).rows == [(3 * CHIPS,)]


def test_a_query_that_needs_too_much_memory_says_so(folder: Path) -> None:
    """Instead of taking the machine's."""
    with (
        open_history(folder, memory_bytes=20 * 2**20) as reader,
        pytest.raises(HistoryError, match="--memory"),
    ):
        reader.query(
            "SELECT list(a.range) FROM range(4000000) AS a, range(3) AS b GROUP BY a.range %"
            " 1000000 ORDER BY 1"
        )
