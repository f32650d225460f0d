"""Output of `trnfleet fleet describe` and `compare`, with claims and assumptions."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from support.processes.programs import run

if TYPE_CHECKING:
    from pathlib import Path


def fleet_of(tmp_path: Path, hardware: str) -> str:
    file = tmp_path / "one.toml"
    file.write_text(f'name = "one"\n[[clusters]]\nname = "uc1"\n{hardware}\n')
    return str(file)


def compared(*arguments: str) -> dict[str, Any]:
    result = run("fleet", "compare", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        (
            "ultraservers = [{ count = 1 }]",
            (
                "83.2 PFLOP/s as AWS rounds it (83.1 PFLOP/s from 64 chips)",
                "42.8 PFLOP/s",
                "185.6 TB/s",
                "6.0 TiB in 256 stacks",
                "512  (256 logical)",
                "128 torus, 64 Z",
                "12.8 Tb/s",
                "against 5.2 PFLOP/s (launch blog",
                "against 332.8 PFLOP/s",
            ),
        ),
        (
            'instances = [{ type = "trn1.2xlarge", count = 1 }]',
            (
                "32.0 GiB in 2 stacks, 820.0 GB/s",
                "190.0 TFLOP/s",
                "47.5 TFLOP/s",
                "12.5 Gb/s, no EFA",
                "NeuronCores   2\n",
            ),
        ),
        (
            'ultraservers = [{ type = "u-trn3x144", count = 1, lnc = 1 }]',
            (
                "144 Trainium3",
                "36 trn3e.24xlarge",
                "362.4 PFLOP/s",
                "96.6 PFLOP/s",
                "705.6 TB/s",
                "NeuronCores   1,152\n",
                "144 within instances, 288 between them, all ports to switches",
            ),
        ),
    ],
)
def test_units_follow_the_size_and_totals_are_what_aws_prints(
    tmp_path: Path, hardware: str, said: tuple[str, ...]
) -> None:
    """No figure is printed as zero of a unit that is too large for it."""
    text = run("fleet", "describe", fleet_of(tmp_path, hardware)).stdout
    for part in said:
        assert part in text
    assert " 0.0 " not in text
    assert "0.03" not in text


def test_ultraservers_side_by_side_against_the_published_totals() -> None:
    """UltraServer sums are within 0.3 % of AWS's figures, and claims list the matches."""
    found = compared("trn2-ultraserver", "trn3-gen1-ultraserver", "trn3-gen2-ultraserver")
    assert [each["chips"] for each in found["subjects"]] == [64, 64, 144]
    for subject in found["subjects"]:
        assert set(subject["published"]) >= {
            "fp8_dense_flops",
            "bf16_dense_flops",
            "hbm_bytes",
            "hbm_bytes_per_s",
        }
        for name, value in subject["published"].items():
            assert math.isclose(subject[name], value, rel_tol=0.003), (subject["name"], name)
        assert set(subject["assumed"]) == {"power_max_w", "price_usd_per_h"}
    verdicts = {claim["claim"]: claim["agrees"] for claim in found["claims"]}
    assert verdicts["4.4 x the compute"]
    assert verdicts["40 % better energy efficiency"]
    assert not verdicts["4 x the performance per watt"]
    assert {each["subject"] for each in found["sources_differ"]} >= {
        "sparse FP8 peak of Trainium2",
        "links between chips of a Trn3 UltraServer Gen1",
    }


def test_a_job_and_other_hardware_train_a_model(tmp_path: Path) -> None:
    """A job's hardware and as much of another, with time and price of a training."""
    arguments = (
        "demo:pretrain-70b",
        "trn1",
        "p5en",
        "--chips",
        "64",
        "--train",
        "300B:6T",
        "--mfu",
        "0.5",
    )
    found = compared(*arguments)
    assert [each["name"] for each in found["subjects"]] == [
        "demo:pretrain-70b",
        "trn1.32xlarge",
        "p5en.48xlarge",
    ]
    assert {each["chips"] for each in found["subjects"]} == {64}
    trn1_facts = found["subjects"][1]
    trn2, trn1, _ = (each["training"] for each in found["subjects"])
    assert trn1["elapsed_s"] / trn2["elapsed_s"] == pytest.approx(667 / 190)
    assert trn2["elapsed_s"] == pytest.approx(found["training"]["flops"] / (64 * 667e12 * 0.5))
    assert not trn1["fits"]
    text = run("fleet", "compare", *arguments).stdout
    for part in (
        "300B parameters on 6T tokens",
        "no: 4.37 TiB of state",
        "disagrees: higher",
        "~2",
        "as p5e.48xlarge",
    ):
        assert part in text
    assert "HBM read / USD" in text
    assert trn1_facts["hbm_bytes_per_s_per_usd_per_h"] == pytest.approx(820e9 * 16 / 15.49)
    own = run("fleet", "compare", fleet_of(tmp_path, "ultraservers = [{ count = 2 }]"), "trn3")
    assert own.returncode == 0
    assert "128 Trainium2" in own.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trn2-ultraservr"], "did you mean 'trn2-ultraserver'"),
        (["p5em.48xlarge"], "did you mean 'p5e"),
        (["demo:pretrain-80b"], "did you mean 'pretrain-70b'"),
        (["demo:"], "demo: no job '': choose from "),
        (["trn2:pretrain-70b"], "'trn2' is hardware, which has no jobs: leave out :pretrain-70b"),
        (["none.toml"], "no such file"),
        (["trn2", "--train", "300B"], "write PARAMETERS:TOKENS"),
        (["trn2", "--train", "1:1", "--mfu", "0"], "--mfu"),
        (["trn2", "--dtype", "fp4"], "'bf16', 'fp8', 'fp32'"),
        (["trn2", "--mfu", "0.3"], "--mfu without --train"),
        (["trn2", "--mfu", "0.4", "--dtype", "bf16"], "--dtype and --mfu without --train"),
    ],
)
def test_mistakes_exit_with_2_and_say_what_is_right(arguments: list[str], said: str) -> None:
    result = run("fleet", "compare", *arguments)
    assert result.returncode == 2, result.stdout
    assert said in result.stderr


def test_an_unknown_name_is_refused_with_each_choice_once() -> None:
    """`trn3`, a fleet and an UltraServer, is listed once.

    As a subject it is the UltraServer.
    """
    choices = (
        run("fleet", "compare", "nosuch").stderr.rpartition("choose from ")[2].strip().split(", ")
    )
    assert "trn3" in choices
    assert len(choices) == len(set(choices))
    assert compared("trn3")["subjects"][0]["name"] == "u-trn3x144"
