from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from trnfleet.cli.commands import rules
from trnfleet.cli.main import run
from trnfleet.config import shipped_names
from trnfleet.domain.alerts.signals import FIGURES, Scope

if TYPE_CHECKING:
    from pathlib import Path


RULE = """
[[rules]]
name = "hot"
scope = "chip"
severity = "warning"
figure = "temperature_c"
above = 90
for = "10s"
summary = "{worst} is at {value}"
"""
TEST = """
rules = ["hot.toml"]
[[tests]]
name = "a hot chip"
series = [{ figure = "temperature_c", target = "uc1/us-0001/trn2u-0001-0/chip00", values = "80 93x4" }]
expect = [
    { at = "0s", rule = "hot" },
    { at = "15s", rule = "hot", alerts = [{ target = "uc1/us-0001/trn2u-0001-0/chip00", state = "pending" }] },
    { at = "20s", rule = "hot", alerts = [{ target = "uc1/us-0001/trn2u-0001-0/chip00", value = 93 }] },
]
"""  # noqa: E501


def call(*arguments: str) -> Result:
    return CliRunner().invoke(rules.command, arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hot.toml").write_text(RULE, encoding="utf-8")
    (tmp_path / "good.toml").write_text(TEST, encoding="utf-8")
    return tmp_path


def test_a_test_that_succeeds(folder: Path) -> None:
    """One line a file, and exit status 0."""
    result = call("test", str(folder / "good.toml"))

    assert (result.exit_code, result.output) == (0, f"SUCCESS  {folder / 'good.toml'}: 1 test\n")


def test_a_test_that_fails(folder: Path) -> None:
    """Expected and actual are printed below each other, with test, rule and instant.

    The exit status is 1.
    """
    (folder / "bad.toml").write_text(
        TEST.replace("value = 93", "value = 94, members = 2"), encoding="utf-8"
    )

    result = call("test", str(folder / "bad.toml"), str(folder / "good.toml"))

    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"FAILED   {folder / 'bad.toml'}: 1 of 1 test",
        "  a hot chip: hot at 20 s",
        "    expected: uc1/us-0001/trn2u-0001-0/chip00 firing value=94 members=2",
        (
            "         got: uc1/us-0001/trn2u-0001-0/chip00 firing value=93 members=1 "
            " uc1/us-0001/trn2u-0001-0/chip00 is at 93.0 °C"
        ),
        f"SUCCESS  {folder / 'good.toml'}: 1 test",
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('chip00", state', 'chip01", state', "expected: uc1/us-0001/trn2u-0001-0/chip01 pending"),
        ('{ at = "0s", rule = "hot" }', '{ at = "20s", rule = "hot" }', "expected: no alert"),
        ('state = "pending"', 'state = "firing"', "got: uc1/us-0001/trn2u-0001-0/chip00 pending"),
        ("value = 93", 'summary = "other"', "firing  other"),
        ("value = 93", 'place = "uc1"', "firing place=uc1"),
    ],
)
def test_each_difference_is_seen(folder: Path, before: str, after: str, said: str) -> None:
    """Any difference fails the test.

    It is an alert more or less, or another state, place or summary.
    """
    text = TEST.replace(before, after, 1)
    assert text != TEST
    (folder / "bad.toml").write_text(text, encoding="utf-8")

    result = call("test", str(folder / "bad.toml"))

    assert result.exit_code == 1
    assert said in result.output


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('rules = ["hot.toml"]', 'rules = ["cold.toml"]', "cold.toml: no such file"),
        ('rules = ["hot.toml"]', 'rules = ["hardwear"]', "did you mean 'hardware'?"),
        (
            'rule = "hot"',
            'rule = "hott"',
            "test 'a hot chip': no rule 'hott': did you mean 'hot'?",
        ),
        (
            "temperature_c",
            "temprature_c",
            "a test cannot set 'temprature_c' of an address: did you mean 'temperature_c'?",
        ),
        ("80 93x4", "80 93y4", "'93y4' is not a sample"),
        ("80 93x4", "80 99999", "temperature_c 99999.0 is outside 0 to 6553.4 degC"),
        ("80 93x4", "80 -1", "temperature_c -1.0 is outside"),
        ("80 93x4", '80 \\"hot\\"', "temperature_c is a number, not 'hot'"),
        ('chip00", values', 'chip99", values', "'uc1/us-0001/trn2u-0001-0/chip99' is not there"),
        ('chip00", values', 'chip00..chap15", values', "is not a range such as chip00..chip15"),
        ('chip00", values', 'chip00:up", values', "temperature_c is not a figure of a link"),
        ('chip00", values', 'chip00/nc0", values', "temperature_c is not a figure of a core"),
        (
            "[[tests]]",
            'interval = "1s"\n[[tests]]\nexpects = 3',
            "unknown key 'tests.0.expects': did you mean 'expect'?",
        ),
        ("15s", "9d", "is more than 20000 intervals of 10 s away"),
        (
            "[[tests]]",
            '[[tests]]\ninstances = [{address = "uc1/us-0001/a", type = "trn9"}]',
            "trn9",
        ),
        (
            "[[tests]]",
            '[[tests]]\njobs = [{name = "j", on = ["uc9"]}]',
            "job j runs on 'uc9', which is not there",
        ),
        ("[[tests]]", "[[tests]", "not valid TOML"),
    ],
)
def test_an_invalid_file(folder: Path, before: str, after: str, said: str) -> None:
    """One line names the error and its place.

    The other files are tested, and the exit status is 2.
    """
    text = TEST.replace(before, after, 1)
    assert text != TEST
    (folder / "bad.toml").write_text(text, encoding="utf-8")

    result = call("test", str(folder / "bad.toml"), str(folder / "good.toml"))

    assert result.exit_code == 2
    assert "SUCCESS" in result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"INVALID  {folder / 'bad.toml'}: ")
    assert said in line


def test_an_invalid_file_outdoes_a_failed_test(folder: Path) -> None:
    """Exit status 2, also where another test failed before and after."""
    (folder / "bad.toml").write_text(TEST.replace("value = 93", "value = 94"), encoding="utf-8")
    bad = str(folder / "bad.toml")
    none = str(folder / "none.toml")

    assert call("test", bad, none).exit_code == 2
    assert call("test", none, bad).exit_code == 2


def test_a_file_that_is_valid(folder: Path) -> None:
    """How many rules, by severity."""
    result = call("check", str(folder / "hot.toml"))

    assert (result.exit_code, result.output) == (
        0,
        f"valid    {folder / 'hot.toml'}: 1 rule (severity: 1 warning)\n",
    )


def test_files_that_are_not_valid(folder: Path) -> None:
    """Each invalid file is named with its key, also if invalid only together with others.

    The exit status is 2.
    """
    (folder / "bad.toml").write_text(RULE.replace("above = 90", "abov = 90"), encoding="utf-8")
    (folder / "same.toml").write_text(RULE, encoding="utf-8")

    one = call("check", str(folder / "bad.toml"), str(folder / "hot.toml"))
    assert one.exit_code == 2
    assert "unknown key 'rules.0.abov': did you mean 'above'?" in one.stderr
    assert "hot.toml: 1 rule" in one.stdout
    two = call("check", str(folder / "hot.toml"), str(folder / "same.toml"))
    assert two.exit_code == 2
    assert "rules.0.name = 'hot' is there already" in two.stderr
    assert call("check", "hardwear").exit_code == 2


def test_what_ships_is_valid() -> None:
    """Without a file the whole shipped pack is checked, together."""
    result = call("check")

    assert result.exit_code == 0
    assert len(result.output.splitlines()) == len(shipped_names("alerts")) + 1
    assert "valid together: " in result.output


@pytest.mark.parametrize("name", shipped_names("alerts"))
def test_each_shipped_file_stands_alone(name: str) -> None:
    """A shipped file may inhibit another one's rules, and is valid without it."""
    assert call("check", name).exit_code == 0
    assert call("list", "--rules", name).exit_code == 0


def test_the_rules_are_listed(folder: Path) -> None:
    """Each rule has one line with its condition, for one scope or own files."""
    every = call("list")
    assert every.exit_code == 0
    assert "telemetry-lost" in every.output or "silent" in every.output

    jobs = call("list", "--scope", "job").output.splitlines()
    assert jobs[0].split() == ["RULE", "SCOPE", "SEVERITY", "FOR", "CONDITION"]
    assert all(" job " in line for line in jobs[1:-2])
    assert all(
        line.endswith("needs a training callback or scheduler to publish") for line in jobs[1:-2]
    )
    own = call("list", "--rules", str(folder / "hot.toml")).output.splitlines()
    assert own[1].split()[:9] == [
        "hot",
        "chip",
        "warning",
        "10",
        "s",
        "temperature",
        ">",
        "90",
        "°C;",
    ]
    assert own[1].endswith("°C; simulated or third-party only")
    assert own[-1] == "1 rule (severity: 1 warning)"


def test_the_figures_are_listed() -> None:
    """Every figure of every scope stands in the table, with its kind, unit and meaning."""
    lines = call("list", "--figures").output.splitlines()
    for scope in Scope:
        assert any(line.startswith(scope.value.upper()) for line in lines)
        for name in FIGURES[scope]:
            assert any(line.split()[:1] == [name] for line in lines)

    marked = {line.split()[0] for line in lines if line.endswith("(simulated or third-party only)")}
    assert {"link_up", "temperature_c", "hbm_bw_util_pct"} < marked
    assert not marked & {"power_w", "nc_util_pct", "step_time_s"}
    only = call("list", "--figures", "--scope", "core").output.splitlines()
    assert only[1].split()[:3] == ["nc_util_pct", "number", "%"]


def test_it_is_a_command_of_trnfleet(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status reaches the shell."""
    assert run(["rules", "test", str(folder / "good.toml")]) == 0
    assert run(["rules", "test", str(folder / "none.toml")]) == 2
    assert run(["rules", "list", "--scope", "chips"]) == 2
    assert run(["rules", "test"]) == 2
    assert "Missing argument" in capsys.readouterr().err
