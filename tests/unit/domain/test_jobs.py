from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from trnfleet.domain.fleet import Inference as OfFleetFile
from trnfleet.domain.jobs import JOB_STATES, FineTuning, Inference, Job
from trnfleet.domain.models import MODELS, PROFILES

ADAPTER: TypeAdapter[Any] = TypeAdapter(Job)
PLACE: dict[str, Any] = {"name": "j", "on": ("c",)}


def job(kind: str, **rest: Any) -> Any:
    return ADAPTER.validate_python({"kind": kind} | PLACE | rest)


def test_states_have_their_names() -> None:
    """Their order is what the simulator's codes mean."""
    assert JOB_STATES == (
        "running", "checkpointing", "stalled", "starting", "hung", "failed", "waiting", "idle",
    )  # fmt: skip  # one line is the order


def test_a_fleet_file_has_the_same_models() -> None:
    """Fleet files name the kinds of jobs."""
    assert OfFleetFile is Inference


def test_a_model_fills_in_what_the_file_leaves_out() -> None:
    """The file's own keys win."""
    train = job("training", model="llama-3.1-405b", layers=100)
    assert (train.parameters, train.layers, train.hidden) == (405e9, 100, 16_384)
    serve = job("inference", model="llama-3.3-70b", model_bytes=71e9)
    assert serve.model_bytes == 71e9
    assert serve.kv_bytes_per_token == 327_680


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_are_valid_and_the_files_keys_win(name: str) -> None:
    """Every kind of serving by name is a whole job; what the file says replaces its defaults."""
    plain = job("inference", profile=name)
    assert plain.tpot_s == PROFILES[name]["tpot_s"]
    assert plain.model_bytes == MODELS[PROFILES[name]["model"]].weight_bytes
    assert job("inference", profile=name, max_batch=3).max_batch == 3


def test_the_cache_of_a_token_follows_from_the_model() -> None:
    """Two vectors of every layer's KV heads: 126 layers, 8 heads of 128, BF16 for Llama 3.1 405B."""
    assert MODELS["llama-3.1-405b"].kv_bytes_per_token == 2 * 126 * 8 * 128 * 2
    assert MODELS["llama-3.1-405b"].weight_bytes == 810e9


def test_fine_tuning_is_a_chain_of_runs() -> None:
    """It has the keys of a training job and those of what comes between runs."""
    tune = job("finetuning", checkpoint_every_steps=50, pause_s=0.0)
    assert type(tune) is FineTuning
    assert (tune.checkpoint_every_steps, tune.evaluation_s, tune.pause_s) == (50, 40.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("training", {"model": "llama-3.1-40b"}, "did you mean 'llama-3.1-405b'?"),
        ("training", {"tensor_parallel": 8}, "tensor_parallel needs parameters"),
        ("training", {"parameters": 8e9, "tensor_parallel": 12}, "choose 1, 2, 4, 8 or 16 chips"),
        ("training", {"compute_share": 0.9, "collective_share": 0.5}, "at most 1"),
        ("training", {"starts_at_s": 5.0, "ends_at_s": 5.0}, "ends_at_s 5 must be after starts_at_s, 5"),
        ("training", {"evaluation_s": 5.0}, "evaluation_s"),
        ("finetuning", {"checkpoint_every_steps": 0}, "greater than or equal to 1"),
        ("inference", {"profile": "llama-405b-latenc"}, "did you mean 'llama-405b-latency'?"),
        ("inference", {"peaks": ({"for_s": 5.0, "factor": 2.0},)}, "either at_s or at_hour_utc"),
        ("inference", {"peaks": ({"at_s": 1.0, "for_s": float("nan"), "factor": 2.0},)}, "for_s"),
        ("trace", {}, "file"),
        ("trace", {"file": "a.csv", "like": "mining"}, "'training' or 'inference'"),
        ("reserved", {"hbm_used": 2.0}, "less than or equal to 1"),
    ],
)
def test_mistakes_are_explained(kind: str, settings: dict[str, Any], said: str) -> None:
    """A mistake names what is wrong and what would be right."""
    with pytest.raises(ValidationError) as caught:
        job(kind, **settings)
    assert said in str(caught.value)
