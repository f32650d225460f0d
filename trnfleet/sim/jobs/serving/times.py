"""Times of a serving replica: decode pass, prefill and capacity, from model and chips.

Two fitted constants for passes and two for prefill reproduce the published times of all dense
models within 15 % (Neuron SDK, nxd-inference tutorials: 10,000 tokens in, 1,500 out, batch 1, one
trn2.48xlarge):

    Llama 3.1 405B, BF16                        37.9 ms a token     2,442 ms to the first
    Llama 3.1 405B, FP8 and seven speculated     8.27 ms            2,255 ms
    Llama 3.3 70B, BF16                         19.7 ms               810 ms
    Llama 3.3 70B, BF16 and seven speculated     5.3 ms               870 ms
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.models import DRAFT_MODEL, MODELS
from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.activity import HBM_CEILING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import ChipType
    from trnfleet.domain.jobs import Inference

LAYER_S = 180e-6
"""Overhead of a layer in a decode pass: kernels' starts, collectives, synchronisation. Fitted: the
published times leave 154 us (405B) and 205 us (70B) beside reading the weights at 95 % of the
bandwidth."""
ACCEPTANCE = 0.95
"""Chance of accepting a speculated token after accepted ones: fitted. The published times with
speculation need 6.4 (405B) and 7.2 (70B) tokens per pass of at most eight. Their prompts are easy
(sonnets); others have less."""
PREFILL_FLOPS_SHARE = 0.50
"""Share of dense BF16 peak in prefill's matrix products, weights of any type: fitted. Source: the
published times."""
PREFILL_TOKEN_LAYER_S = 0.62e-6
"""Further time per layer and prompt token (attention, collectives): fitted to the published times.
"""
KV_SHARE_PER_SEQUENCE = 0.02
KV_TOKENS = 8_192
"""Default KV cache of a sequence of this length, as a share of the weights. Used if its size is not
configured. Derived for Llama-3.3-70B (80 layers, 8 KV heads of 128, BF16), 2.7 of 141 GB."""
RUNTIME_HBM_SHARE = 0.03
"""HBM share of the runtime besides weights and cache: assumed, as on reserved instances."""
LENGTH_SD = 0.83
"""Standard deviation of the logarithm of the tokens of prompts and of answers. The coefficient of
variation is then 1, as that of the exponential distribution published for answers (ServeGen, arXiv
2505.09999); assumed for prompts."""
LENGTHS = 1_024
"""Even quantiles of lengths in a table."""
SEGMENT_TOKENS = 2_048
"""Most tokens of a prompt in one execution; longer prompts are cut: vLLM's default."""
SMALLEST_BUCKET = 128
"""Fewest tokens for which prefill is compiled; further buckets double: published (Neuron SDK 2.33,
`num_batched_tokens_buckets`)."""


class ServingTimes(NamedTuple):
    """Times of one job's replica at full speed, in seconds.

    Bytes and FLOPs are of all its chips together.
    """

    prefill_s: float
    """Mean of prompts of all lengths, padded."""
    weights_s: float
    """Time of a pass for reading all weights, including the draft model's."""
    sequence_s: float
    """Reading the mean KV cache of one sequence."""
    compute_s: float
    """Computing one sequence's part of a pass."""
    overhead_s: float
    """Of a pass, beside the longer of memory and compute."""
    accepted: float
    """Tokens that a pass makes for each sequence."""
    weights_bytes: float
    """Weight bytes read by a pass. The model's once, the draft model's once per proposed token."""
    draft_bytes: float
    """Weights of the draft model."""
    sequence_bytes: float
    """Mean KV cache of one sequence, read by a pass."""
    cache_bytes: float
    """KV cache allocated per sequence, for all its tokens."""
    prompt_tokens: float
    answer_tokens: float
    flops_per_token: float
    """Model FLOPs: two a parameter."""
    max_batch: float

    def pass_s(self, batch: float) -> float:
        """Return the time of a pass over a number of sequences, padded to their bucket."""
        batch = bucket(batch, self.max_batch)
        memory_s = self.weights_s + self.sequence_s * batch
        return max(memory_s, self.compute_s * batch) + self.overhead_s

    def tpot_s(self, batch: float) -> float:
        """Return the time per token of a sequence while the replica decodes."""
        return self.pass_s(batch) / self.accepted

    @property
    def requests_per_s(self) -> float:
        """Request capacity of a replica.

        Each request costs its prefill, and its share of the passes of a full batch.
        """
        decode_s = self.answer_tokens * self.tpot_s(self.max_batch) / self.max_batch
        return 1.0 / (self.prefill_s + decode_s)

    def batch_at(self, requests_per_s: float) -> float:
        """Return the mean batch at a rate of requests, at most the largest."""
        batch = 0.0
        decoding = max(1.0 - requests_per_s * self.prefill_s, 1e-9)
        for _ in range(32):
            residence_s = self.answer_tokens * self.tpot_s(batch) / decoding
            # Half way, because a bucket's edge has no fixed point.
            batch += (min(requests_per_s * residence_s, self.max_batch) - batch) / 2.0
        return batch


def bucket(batch: float, most: float) -> float:
    """Return the batch that is executed for a number of sequences: a power of two, or the largest.

    Published (Neuron SDK 2.33, `num_seqs_buckets`).
    """
    return min(2.0 ** max(math.ceil(batch) - 1, 0).bit_length(), most)


@cache
def length_shares() -> NDArray[np.float64]:
    """Return even quantiles of log-normal lengths, as shares of their mean."""
    normal = NormalDist(sigma=LENGTH_SD)
    shares = np.array([math.exp(normal.inv_cdf((at + 0.5) / LENGTHS)) for at in range(LENGTHS)])
    return np.asarray(shares / shares.mean())


def padded(prompt_tokens: float) -> NDArray[np.float64]:
    """Return the tokens computed for prompts of each length, by their mean.

    The last segment of a prompt is padded to its bucket.
    """
    tokens = np.maximum(np.rint(prompt_tokens * length_shares()), 1.0)
    last = (tokens - 1.0) % SEGMENT_TOKENS + 1.0
    buckets = SMALLEST_BUCKET * 2.0 ** np.arange(SEGMENT_TOKENS.bit_length())
    return np.asarray(tokens - last + buckets[np.searchsorted(buckets, last)])


def accepted_tokens(speculative_tokens: int) -> float:
    """Return the mean tokens per pass of a sequence: accepted ones and the model's own."""
    return sum(ACCEPTANCE**place for place in range(speculative_tokens + 1))


def serving_times(job: Inference, kind: ChipType, chips: int) -> ServingTimes:
    """Return the times of a job's replica on a number of chips.

    Raises:
        ConfigError: a model does not fit, or a time per token is impossible.
    """
    bandwidth = HBM_CEILING * kind.hbm_bytes_per_s.value * chips
    flops = PREFILL_FLOPS_SHARE * kind.bf16_dense_flops.value * chips
    draft = MODELS[DRAFT_MODEL]
    drafts = job.speculative_tokens
    per_token = job.kv_bytes_per_token or KV_SHARE_PER_SEQUENCE * job.model_bytes / KV_TOKENS
    prompt = job.prompt_tokens
    answer = job.answer_tokens
    weights_bytes = job.model_bytes + drafts * draft.weight_bytes
    sequence_bytes = per_token * (prompt + answer / 2.0)
    accepted = accepted_tokens(drafts)
    flops_per_token = 2.0 * job.active_parameters
    token_layers = float(job.layers + (draft.layers if drafts else 0))
    prefill_flops = flops_per_token + (2.0 * draft.parameters if drafts else 0.0)
    overhead_s = LAYER_S * (job.layers + drafts * draft.layers)
    weights_s = weights_bytes / bandwidth
    sequence_s = sequence_bytes / bandwidth
    # A verifying pass computes every speculated token and one more.
    compute_s = ((drafts + 1) * flops_per_token + drafts * 2.0 * draft.parameters) / flops
    if job.tpot_s is not None:
        overhead_s = job.tpot_s * accepted - max(weights_s + sequence_s, compute_s)
    prefill_s = job.ttft_s or max(
        float(padded(prompt).mean())
        * (prefill_flops / flops + token_layers * PREFILL_TOKEN_LAYER_S),
        job.model_bytes / bandwidth + LAYER_S * job.layers,
    )
    times = ServingTimes(
        prefill_s,
        weights_s,
        sequence_s,
        compute_s,
        overhead_s,
        accepted,
        weights_bytes,
        draft.weight_bytes if drafts else 0.0,
        sequence_bytes,
        per_token * job.context_tokens,
        float(prompt),
        float(answer),
        flops_per_token,
        float(job.max_batch),
    )
    _check(job, times, kind, chips)
    return times


def used_share(job: Inference, times: ServingTimes, room: float) -> float:
    """Return the used share of a replica's HBM, `room` bytes.

    It contains the weights, the runtime's part and the cache of a full batch.
    """
    if job.hbm_used is not None:
        return job.hbm_used
    held = job.model_bytes + times.draft_bytes + times.cache_bytes * job.max_batch
    return min(held / room + RUNTIME_HBM_SHARE, 1.0)


def _check(job: Inference, times: ServingTimes, kind: ChipType, chips: int) -> None:
    key = f"jobs.{job.name}"
    room = kind.hbm_bytes.value * chips
    if job.model_bytes > room:
        raise ConfigError(
            f"{key}.model_bytes = {job.model_bytes:g}: the HBM of {chips} {kind.title} chips holds"
            f" {room:g} bytes"
        )
    cache_bytes = times.cache_bytes * job.max_batch
    if job.kv_bytes_per_token and job.model_bytes + cache_bytes > room:
        raise ConfigError(
            f"{key}.max_batch = {job.max_batch}: the KV cache of that number of sequences of"
            f" {job.context_tokens} tokens, {cache_bytes:.3g} bytes, does not fit beside"
            f" {job.model_bytes:g} bytes of weights; there is room for"
            f" {int((room - job.model_bytes) / times.cache_bytes)}"
        )
    if times.overhead_s < 0 and job.tpot_s is not None:
        fastest_s = (times.pass_s(1.0) - times.overhead_s) / times.accepted
        raise ConfigError(
            f"{key}.tpot_s = {job.tpot_s:g}: reading"
            f" {times.weights_bytes + times.sequence_bytes:.3g} bytes at {HBM_CEILING:.0%} of the"
            f" HBM bandwidth of {chips} {kind.title} chips takes {fastest_s:.3g} s a token"
        )
