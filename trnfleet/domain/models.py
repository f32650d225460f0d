"""Language models that jobs train and serve, and kinds of serving: facts with their evidence.

No simulation: `jobs` and the simulator compute what a job does with a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BYTES_PER_VALUE = {"bf16": 2, "fp8": 1}
"""Of a weight by type."""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A decoder, dense or a mixture of experts: the source of FLOPs, traffic and memory."""

    parameters: float
    layers: int
    hidden: int
    """Width of the residual stream."""
    kv_heads: int
    head_dim: int
    active_parameters: float = 0.0
    """Active parameters per token: fewer in a mixture of experts, all in a dense model."""

    def __post_init__(self) -> None:
        """Set all parameters as active in a dense model."""
        if not self.active_parameters:
            object.__setattr__(self, "active_parameters", self.parameters)

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights in BF16."""
        return self.parameters * BYTES_PER_VALUE["bf16"]

    @property
    def kv_bytes_per_token(self) -> float:
        """KV cache of one token in bytes (derived).

        Keys and values of every layer and KV head, in BF16.
        """
        values = 2 * self.layers * self.kv_heads * self.head_dim
        return float(values * BYTES_PER_VALUE["bf16"])


MODELS = {
    "llama-3.2-1b": LanguageModel(1.24e9, 16, 2_048, 8, 64),
    "llama-3.1-8b": LanguageModel(8.03e9, 32, 4_096, 8, 128),
    "llama-3.3-70b": LanguageModel(70.6e9, 80, 8_192, 8, 128),
    "llama-3.1-405b": LanguageModel(405e9, 126, 16_384, 8, 128),
    "qwen2.5-32b": LanguageModel(32.5e9, 64, 5_120, 8, 128),
    "mixtral-8x22b": LanguageModel(141e9, 56, 6_144, 8, 128, active_parameters=39e9),
    "claude-like-small": LanguageModel(40e9, 60, 7_168, 8, 128),
    "claude-like-2t": LanguageModel(2e12, 120, 16_384, 8, 128, active_parameters=300e9),
}
"""Language models by name. Published: Llama in The Llama 3 Herd of Models (arXiv 2407.21783), table
3, and the models' cards; Qwen2.5 and Mixtral in their cards and configurations. Assumed: all sizes
of claude-like models; none is published."""

DRAFT_MODEL = "llama-3.2-1b"
"""Draft model of speculative decoding. Published for Llama 3.1 405B and 3.3 70B (Neuron SDK
tutorials)."""

TRAINING_PROFILES: dict[str, dict[str, Any]] = {
    # Published: Project Rainier, nearly 500,000 Trainium2 chips, trains Claude. Assumed:
    # everything else. A mixture of experts, every layer over the chips of an instance and eight
    # stages of layers over two UltraServers; tokens of a step follow from its time and from the
    # chips, so that the profile fits any even number of UltraServers from 20 on.
    "claude-like-pretraining": {
        "model": "claude-like-2t",
        "tensor_parallel": 16,
        "pipeline_parallel": 8,
        "sequence_length": 4_096,
        "step_time_s": 12.0,
        "mfu": 0.36,
        "checkpoint_every_steps": 100,
    },
}
"""Kinds of training by name: defaults for the keys of a training or fine-tuning job."""

PROFILES: dict[str, dict[str, Any]] = {
    # Published: Bedrock's latency-optimised Llama 3.1 405B runs on Trainium2. Published (Neuron
    # SDK, nxd-inference tutorial on Llama 3.1 405B): on one trn2.48xlarge with FP8 weights and
    # seven speculated tokens 8.27 ms a token and 2,255 ms to the first at batch 1, 10,000 tokens in
    # and 1,500 out; without both 37.9 ms and 2,442 ms. Assumed: that Bedrock runs it like that, the
    # batch, and the load.
    "llama-405b-latency": {
        "model": "llama-3.1-405b",
        "dtype": "fp8",
        "speculative_tokens": 7,
        "chips_per_replica": 16,
        "max_batch": 4,
        "input_tokens": 10_000,
        "output_tokens": 1_500,
        "load_mean": 0.45,
        "load_swing": 0.35,
    },
    # Published: a shopping assistant ran on more than 80,000 Inferentia and Trainium chips on Prime
    # Day 2024 (AWS blog on Trainium2). Assumed: a model of eight billion parameters, many short
    # conversations at once, an evening peak.
    "shopping-assistant": {
        "model": "llama-3.1-8b",
        "chips_per_replica": 4,
        "max_batch": 64,
        "input_tokens": 2_000,
        "output_tokens": 250,
        "load_mean": 0.38,
        "load_swing": 0.3,
        "peak_hour_utc": 20.0,
    },
    # Published: time per token 19.7 ms and to the first token 0.81 s at batch 1 on trn2.48xlarge
    # (Neuron SDK tutorial on Llama-3.3-70B). Assumed: the batch, the requests and the load.
    "llama-70b": {
        "model": "llama-3.3-70b",
        "chips_per_replica": 16,
        "max_batch": 32,
        "context_tokens": 8_192,
        "load_mean": 0.45,
        "load_swing": 0.35,
    },
    # Published, the same tutorial: 5.3 ms and 0.87 s with seven speculated tokens. Assumed: as
    # above.
    "llama-70b-speculative": {
        "model": "llama-3.3-70b",
        "speculative_tokens": 7,
        "chips_per_replica": 16,
        "max_batch": 8,
        "context_tokens": 8_192,
        "load_mean": 0.45,
        "load_swing": 0.35,
    },
    # Published: Bedrock's latency-optimised Claude 3.5 Haiku runs on Trainium2. Assumed: everything
    # else, since no size is published: forty billion parameters on an instance, small batches, a
    # working day's load.
    "claude-like-latency": {
        "model": "claude-like-small",
        "dtype": "fp8",
        "speculative_tokens": 7,
        "chips_per_replica": 16,
        "max_batch": 8,
        "input_tokens": 4_000,
        "output_tokens": 500,
        "load_mean": 0.45,
        "load_swing": 0.35,
        "peak_hour_utc": 17.0,
    },
}
"""Kinds of serving by name: defaults for the keys of an inference job."""
