from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from trnfleet.domain.fleet import Inference as OfFleetFile
from trnfleet.domain.jobs import JOB_STATES, FineTuning, Inference, Job
from trnfleet.domain.models import MODELS, PROFILES, TRAINING_PROFILES

ADAPTER: TypeAdapter[Any] = TypeAdapter(Job)
PLACE: dict[str, Any] = {"name": "j", "on": ("c",)}


def job(kind: str, **rest: Any) -> Any:
    return ADAPTER.validate_python({"kind": kind} | PLACE | rest)


def test_states_have_their_names() -> None:
    """Their order is what the simulator's codes mean."""
    assert JOB_STATES == (
        "running",
        "checkpointing",
        "stalled",
        "starting",
        "hung",
        "failed",
        "waiting",
        "idle",
        "evaluating",
        "compiling",
        "loading",
        "finished",
        "lost",
    )


def test_a_fleet_file_has_the_same_models() -> None:
    """Fleet files name the kinds of jobs."""
    assert OfFleetFile is Inference


def test_a_model_fills_in_what_the_file_leaves_out() -> None:
    """The file's own keys win."""
    train = job("training", model="llama-3.1-405b", layers=100)
    assert (train.parameters, train.layers, train.hidden) == (405e9, 100, 16_384)
    assert train.active_parameters == 405e9
    assert job("training", model="mixtral-8x22b").active_parameters == 39e9
    assert job("training", model="mixtral-8x22b", parameters=9e9).active_parameters is None
    serve = job("inference", model="llama-3.3-70b", model_bytes=71e9)
    assert serve.model_bytes == 71e9
    assert serve.kv_bytes_per_token == 327_680


@pytest.mark.parametrize("name", TRAINING_PROFILES)
def test_profiles_of_training_are_valid_and_the_files_keys_win(name: str) -> None:
    """Tokens, time and MFU of a step in the file replace the profile's."""
    profile = TRAINING_PROFILES[name]
    plain = job("training", profile=name)
    assert plain.parameters == MODELS[profile["model"]].parameters
    assert (plain.step_time_s, plain.mfu) == (profile["step_time_s"], profile["mfu"])
    assert "step_time_s" not in job("training", profile=name, tokens_per_step=1e6).model_fields_set
    both = job("training", profile=name, tokens_per_step=1e6, step_time_s=3.0)
    assert (both.step_time_s, "mfu" in both.model_fields_set) == (3.0, False)


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_are_valid_and_the_files_keys_win(name: str) -> None:
    """Every kind of serving is a complete job; the file's keys replace its defaults."""
    plain = job("inference", profile=name)
    assert plain.max_batch == PROFILES[name]["max_batch"]
    assert plain.parameters == MODELS[PROFILES[name]["model"]].parameters
    assert job("inference", profile=name, max_batch=3).max_batch == 3


def test_the_cache_of_a_token_follows_from_the_model() -> None:
    """Two vectors of every layer's KV heads.

    126 layers, 8 heads of 128, BF16 for Llama 3.1 405B.
    """
    assert MODELS["llama-3.1-405b"].kv_bytes_per_token == 2 * 126 * 8 * 128 * 2
    assert MODELS["llama-3.1-405b"].weight_bytes == 810e9


def test_weights_follow_from_the_model_and_their_type() -> None:
    """Two bytes a parameter in BF16, one in FP8.

    Without a model parameters follow from the bytes.
    """
    bf16, fp8 = (job("inference", model="llama-3.1-405b", dtype=dtype) for dtype in ("bf16", "fp8"))
    assert (bf16.model_bytes, fp8.model_bytes) == (810e9, 405e9)
    assert bf16.active_parameters == fp8.active_parameters == 405e9
    assert job("inference", model_bytes=16e9, dtype="fp8").active_parameters == 16e9


def test_a_request_has_tokens_in_and_out() -> None:
    """Of three figures two are enough; a profile's request is replaced as a whole."""

    def tokens(**rest: Any) -> tuple[int, int, int]:
        made = job("inference", **rest)
        return made.prompt_tokens, made.answer_tokens, made.context_tokens

    assert tokens(context_tokens=8_000) == (7_000, 1_000, 8_000)
    assert tokens(context_tokens=8_000, output_tokens=500) == (7_500, 500, 8_000)
    assert tokens(context_tokens=8_000, input_tokens=6_000) == (6_000, 2_000, 8_000)
    assert tokens(input_tokens=10_000, output_tokens=1_500) == (10_000, 1_500, 11_500)
    assert tokens(profile="llama-405b-latency") == (10_000, 1_500, 11_500)
    assert tokens(profile="llama-405b-latency", context_tokens=4_000) == (3_500, 500, 4_000)


def test_fine_tuning_is_a_chain_of_runs() -> None:
    """It has a training job's keys and the keys for the time between runs."""
    tune = job("finetuning", checkpoint_every_steps=50, pause_s=0.0)
    assert type(tune) is FineTuning
    assert (tune.checkpoint_every_steps, tune.evaluation_s, tune.pause_s) == (50, 40.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("training", {"model": "llama-3.1-40b"}, "did you mean 'llama-3.1-405b'?"),
        ("training", {"tensor_parallel": 8}, "tensor_parallel needs parameters"),
        (
            "training",
            {"parameters": 8e9, "tensor_parallel": 10},
            "choose 1, 2, 3, 4, 6, 8, 12 or 16, a divisor of an instance's chips",
        ),
        ("training", {"recompute": 0.5}, "recompute needs parameters"),
        (
            "training",
            {"parameters": 8e9, "active_parameters": 9e9},
            "active_parameters 9e+09 must be at most",
        ),
        (
            "training",
            {"profile": "claude-like-pretrainin"},
            "did you mean 'claude-like-pretraining'?",
        ),
        ("training", {"model": "llama-3.1-8b", "adapter_parameters": 4e7}, "adapter_parameters"),
        ("training", {"compute_share": 0.9, "collective_share": 0.5}, "at most 1"),
        (
            "training",
            {"starts_at_s": 5.0, "ends_at_s": 5.0},
            "ends_at_s 5 must be after starts_at_s, 5",
        ),
        ("training", {"evaluation_s": 5.0}, "evaluation_s"),
        ("finetuning", {"checkpoint_every_steps": 0}, "greater than or equal to 1"),
        ("inference", {"profile": "llama-405b-latenc"}, "did you mean 'llama-405b-latency'?"),
        (
            "inference",
            {"input_tokens": 10, "output_tokens": 5, "context_tokens": 20},
            "output_tokens 5 are 15 tokens, but context_tokens is 20: leave one out",
        ),
        (
            "inference",
            {"input_tokens": 9_000},
            "context_tokens 8192 must be more than the 9000 input",
        ),
        ("inference", {"dtype": "fp16"}, "'bf16' or 'fp8'"),
        ("inference", {"model": "llama-3.3-70b", "dtype": "fp16"}, "'bf16' or 'fp8'"),
        ("inference", {"speculative_tokens": 65}, "less than or equal to 64"),
        ("inference", {"peaks": ({"for_s": 5.0, "factor": 2.0},)}, "either at_s or at_hour_utc"),
        ("inference", {"peaks": ({"at_s": 1.0, "for_s": float("nan"), "factor": 2.0},)}, "for_s"),
        ("trace", {}, "file"),
        ("trace", {"file": "a.csv", "like": "mining"}, "'training' or 'inference'"),
        ("reserved", {"hbm_used": 2.0}, "less than or equal to 1"),
    ],
)
def test_mistakes_are_explained(kind: str, settings: dict[str, Any], said: str) -> None:
    """An error names the mistake and a valid value."""
    with pytest.raises(ValidationError) as caught:
        job(kind, **settings)
    assert said in str(caught.value)
