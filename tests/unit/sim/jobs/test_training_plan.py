"""A step's figures from the model: FLOPs, HBM, checkpoints and contradictions.

Expected values are computed by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.sim.job_site import LLAMA_405B, planned, site, training, tuning

from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import ENGINE_EFFICIENCY, LINK_CEILING, QUANTITIES, Phase
from trnfleet.sim.jobs.training_plan import StepPlan, plan

PEAK = 667e12
LLAMA_8B: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "tensor_parallel": 4,
    "sequence_length": 4_096,
    "tokens_per_step": 524_288.0,
    "mfu": 0.33,
}
SIZES = {
    "tokens_per_step": 196_608.0,
    "step_time_s": 6 * 405e9 * 196_608 / (192 * PEAK * 0.38),
    "mfu": 0.38,
}


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in LLAMA_405B.items() if key not in keys}


def of(step: StepPlan, phase: Phase, name: str) -> float:
    return float(step.activity[phase, QUANTITIES[name]])


@pytest.mark.parametrize("left_out", SIZES)
def test_two_of_tokens_time_and_mfu_give_the_third(left_out: str) -> None:
    """Whichever a file leaves out follows from the model and the chips."""
    given = {key: value for key, value in SIZES.items() if key != left_out}
    flops = plan(training(**without(*SIZES) | given), site(192)).flops
    assert (flops.tokens, flops.step_s, flops.mfu) == pytest.approx(
        (SIZES["tokens_per_step"], SIZES["step_time_s"], SIZES["mfu"])
    )


def test_three_that_contradict_each_other_are_refused() -> None:
    """The message has all three figures, and the value derived from the first two."""
    with pytest.raises(ConfigError) as caught:
        planned(step_time_s=9.0)
    said = str(caught.value)
    for part in (
        "jobs.t.step_time_s = 9:",
        "tokens_per_step = 196608",
        "an mfu of 0.415",
        "not mfu = 0.38",
    ):
        assert part in said
    assert planned(step_time_s=9.9).flops.mfu == pytest.approx(0.38 * SIZES["step_time_s"] / 9.9)


def test_a_job_without_a_model_has_the_parameters_that_its_figures_imply() -> None:
    """Old files still work: FLOPs per token are derived from tokens, time and MFU."""
    flops = plan(training(tokens_per_step=1e6, step_time_s=5.0, mfu=0.4), site()).flops
    assert flops.per_token * flops.tokens == pytest.approx(0.4 * 16 * PEAK * 5.0)
    assert (flops.tokens, flops.step_s, flops.mfu) == (1e6, 5.0, 0.4)


def test_a_mixture_of_experts_computes_with_few_and_holds_all() -> None:
    """FLOPs use the active parameters; memory, gradients and checkpoints all of them."""
    dense = plan(training(parameters=141e9, layers=56, hidden=6_144), site(64))
    mixed = plan(training(model="mixtral-8x22b"), site(64))
    assert mixed.flops.per_token == 6 * 39e9
    assert dense.flops.per_token == 6 * 141e9
    assert mixed.checkpoint_s == dense.checkpoint_s == pytest.approx(12 * 141e9 / (4 * 24e9))
    assert mixed.hbm_used == dense.hbm_used
    assert mixed.flops.step_s == pytest.approx(dense.flops.step_s * 39 / 141)


def test_adapters_alone_are_trained() -> None:
    """A frozen parameter costs four FLOPs, an adapter's six.

    Gradients, optimizer and checkpoint are the adapters' own.
    """
    whole = plan(tuning(**LLAMA_8B), site())
    lora = plan(tuning(**LLAMA_8B, adapter_parameters=4e7), site())
    assert whole.flops.per_token == 6 * 8.03e9
    assert lora.flops.per_token == 4 * 8.03e9 + 6 * 4e7
    assert lora.optimizer_s == pytest.approx(whole.optimizer_s * 4e7 / 8.03e9)
    assert lora.checkpoint_s == pytest.approx(12 * 4e7 / 17.5e9, rel=0.5)
    assert lora.collective_s < whole.collective_s
    spared = (2 / 4 + 12 / 16) * 8.03e9 - (4 / 4 + 12 / 16) * 4e7
    assert (whole.hbm_used - lora.hbm_used) * 96 * 2**30 == pytest.approx(spared)


def test_reinforcement_learning_states_its_flops() -> None:
    """With ten for each parameter instead of six the same MFU makes fewer tokens."""
    plain = planned()
    stated = planned(flops_per_token=10 * 405e9)
    assert stated.flops.step_s == pytest.approx(plain.flops.step_s * 10 / 6)
    assert stated.flops.mfu == plain.flops.mfu


def test_the_tensor_engine_is_active_for_its_flops() -> None:
    """Compute-phase activity times an active engine's efficiency equals the FLOPs done.

    Other phases have no FLOPs.
    """
    step = planned()
    done = step.flops.mfu * step.flops.step_s / step.compute_s
    assert of(step, Phase.COMPUTE, "tensor") == pytest.approx(done / ENGINE_EFFICIENCY)
    assert step.compute_flops_share == pytest.approx(done)
    for phase in (Phase.BUBBLE, Phase.COLLECTIVE, Phase.OPTIMIZER, Phase.CHECKPOINT, Phase.STALL):
        assert of(step, phase, "tensor") == 0


def test_recomputation_adds_activity_and_time_and_no_flops() -> None:
    """Recomputing half of the forward pass is a sixth more work at the same MFU.

    An MFU left out falls, and steps get longer.
    """
    plain = planned(mfu=0.3)
    again = planned(mfu=0.3, recompute=0.5)
    assert again.flops == plain.flops
    assert again.compute_flops_share == pytest.approx(plain.compute_flops_share, rel=0.001)
    assert of(again, Phase.COMPUTE, "tensor") == pytest.approx(
        of(plain, Phase.COMPUTE, "tensor") * 7 / 6, rel=0.001
    )
    assert again.hbm_used < plain.hbm_used - 0.05
    usual, longer = (
        plan(training(**without("mfu"), recompute=share), site(192)) for share in (0.0, 0.5)
    )
    assert longer.flops.step_s == pytest.approx(usual.flops.step_s * 7 / 6)
    assert longer.flops.mfu == pytest.approx(0.4 * 6 / 7)


def test_fp8_goes_by_its_own_peak() -> None:
    """The same MFU of nearly twice the peak is more FLOP/s.

    They are shown as a share of the BF16 peak.
    """
    bf16 = planned(mfu=0.3)
    fp8 = planned(mfu=0.3, dtype="fp8")
    assert fp8.flops.step_s == pytest.approx(bf16.flops.step_s * 667 / 1_299)
    whole = fp8.compute_flops_share * fp8.compute_s / fp8.flops.step_s
    assert whole == pytest.approx(0.3 * 1_299 / 667)


def test_hbm_traffic_follows_from_weights_gradients_blocks_and_activations() -> None:
    """8B on four chips a replica, 32 microbatches, no collective beside: bytes counted by hand."""
    step = plan(training(**LLAMA_8B, overlap=0.0), site())
    weights = 2 * 8.03e9 / 4 * 32 * 2
    gradients = 2 * 8.03e9 / 4 * 32
    blocks = 6 * 8.03e9 * 131_072 / 4 / 1_024
    activations = 34 * 4_096 * 32 * 131_072 / 4
    read = weights + gradients + blocks + 3 * activations
    assert of(step, Phase.COMPUTE, "hbm_read") * 2.9e12 * step.compute_s == pytest.approx(read)
    written = gradients + 2 * activations
    assert of(step, Phase.COMPUTE, "hbm_write") * 2.9e12 * step.compute_s == pytest.approx(written)


def test_gradients_in_flight_go_through_hbm() -> None:
    """A ring reads two bytes and writes one per byte sent.

    It does so during and after the passes.
    """
    step, alone = planned(overlap=0.5), planned(overlap=0.0)
    sent = of(step, Phase.COLLECTIVE, "efa") * 25e9
    assert of(step, Phase.COLLECTIVE, "hbm_read") * 2.9e12 < 2 * sent
    assert of(step, Phase.COLLECTIVE, "hbm_write") == pytest.approx(
        of(step, Phase.COLLECTIVE, "hbm_read") / 2
    )

    def read(each: StepPlan) -> float:
        parts = (Phase.COMPUTE, each.compute_s), (Phase.COLLECTIVE, each.collective_s)
        return sum(of(each, phase, "hbm_read") * time_s for phase, time_s in parts)

    assert read(step) == pytest.approx(read(alone))


def test_hbm_in_use_follows_from_the_parallelism() -> None:
    """HBM in use is the sum of model parts, activations and the runtime.

    Weights and gradients of a 64th, optimizer state of a 192nd, four microbatches of activations.
    """
    used = (4 / 64 + 12 / 192) * 405e9 + 34 * 16_384 * 126 * 4 * 4_096 / 64
    assert planned().hbm_used == pytest.approx(used / (96 * 2**30) + 0.03)
    assert planned(hbm_used=0.9).hbm_used == 0.9


def test_a_checkpoint_is_optimizer_state_over_efa() -> None:
    """A checkpoint is twelve bytes per parameter at 24 GB/s per instance.

    EFA carries exactly these bytes, read from HBM.
    """
    step = planned()
    assert step.checkpoint_s == pytest.approx(12 * 405e9 / (12 * 24e9))
    sent = of(step, Phase.CHECKPOINT, "efa") * 25e9 * step.checkpoint_s * 192
    assert sent == pytest.approx(12 * 405e9)
    assert of(
        step, Phase.CHECKPOINT, "hbm_read"
    ) * 2.9e12 * step.checkpoint_s * 192 == pytest.approx(sent)
    longer = planned(checkpoint_s=40.0)
    assert longer.checkpoint_s == 40
    assert of(longer, Phase.CHECKPOINT, "efa") * 25e9 * 40 * 192 == pytest.approx(12 * 405e9)


def test_the_file_system_bounds_checkpoints() -> None:
    """Where many hosts write, its bandwidth is the limit."""
    job = training(**LLAMA_405B)
    assert plan(job, site(192, storage_bytes_per_s=1e11)).checkpoint_s == pytest.approx(48.6)
    wide = plan(training(**LLAMA_405B | {"tokens_per_step": 196_608.0 * 20}), site(3_840))
    assert wide.checkpoint_s == pytest.approx(12 * 405e9 / 2e12)


def test_a_slow_link_stretches_the_all_reduces_of_the_passes() -> None:
    """Tensor parallelism waits for NeuronLink in its bytes' share of the compute phase."""
    step = planned(overlap=0.0)
    assert step.link_wait == pytest.approx(of(step, Phase.COMPUTE, "rows") / LINK_CEILING)
    assert plan(training(), site()).link_wait == 0


@pytest.mark.parametrize(
    ("chips", "settings", "said"),
    [
        (192, {"checkpoint_s": 2.0}, r"checkpoint_s = 2: its 4\.86e\+12 bytes take 2\.43 s"),
        (192, {"microbatches": 1_000}, r"of the HBM bandwidth, of which 95% can be reached"),
        (
            96,
            {"pipeline_parallel": 3},
            r"tensor_parallel = 16: .* raise tensor_parallel, pipeline_parallel or",
        ),
        (
            192,
            {"mfu": 0.7},
            r"mfu = 0\.7: .* of which a tensor engine gives 0\.76 at most; an mfu of 0\.",
        ),
        (192, {"mfu": 0.37, "tensor_active": 0.5}, r"gives 0\.38 at most"),
    ],
)
def test_what_the_hardware_cannot_do_is_refused(
    chips: int, settings: dict[str, Any], said: str
) -> None:
    """Key, value and limit are named."""
    with pytest.raises(ConfigError, match=said):
        plan(training(**LLAMA_405B | settings), site(chips))


def test_pre_training_like_claudes_fits_an_even_number_of_ultraservers() -> None:
    """The profile's tokens follow from the chips.

    Tokens configured in a file change the time of a step instead.
    """
    for chips in (64 * 20, 256_000):
        step = plan(training(profile="claude-like-pretraining"), site(chips))
        assert (step.flops.step_s, step.flops.mfu) == (12.0, 0.36)
        assert step.flops.per_token == 6 * 300e9
        assert 0.5 < step.hbm_used < 1
    own = plan(training(profile="claude-like-pretraining", tokens_per_step=2**28), site(256_000))
    assert own.flops.step_s == pytest.approx(12.0 * 2**28 / step.flops.tokens)


def test_what_a_file_gives_beside_the_model_is_kept() -> None:
    """A file's own HBM in use, checkpoint and collective phase override the model's.

    Older files have them; each is large enough for the model.
    """
    old = {
        "model": "llama-3.3-70b",
        "tensor_parallel": 8,
        "tokens_per_step": 262_144.0,
        "mfu": 0.41,
        "collective_share": 0.16,
        "hbm_used": 0.72,
        "checkpoint_s": 9.0,
    }
    step = plan(training(**old), site(64))
    assert (step.hbm_used, step.checkpoint_s) == (0.72, 9.0)
    assert step.collective_s == pytest.approx(0.16 * step.flops.step_s)
