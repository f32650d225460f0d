"""Jobs of a fleet, the `[[jobs]]` of a fleet file, and the job states.

One model for each kind. Pure data: the simulator computes the effect of a job on chips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.models import BYTES_PER_VALUE, MODELS, PROFILES, TRAINING_PROFILES
from trnfleet.domain.schema import Length, Model, Paths, Positive, Seconds, Segment, Share, Steps
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

ChoiceT = TypeVar("ChoiceT")

JOB_STATES = (
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
"""Job states.

- stalled: waiting for input data
- hung: in a collective that one of its processes never joins
- failed: down after a fault
- waiting: lacks instances
- idle: has its instances and executes nothing
- evaluating: fine-tuning tries its model
- compiling: its graphs are compiled for NeuronCores
- loading: its weights come from shared storage
- starting: first collectives and steps, after both
- finished: ended by itself, said by a reporter
- lost: its reporter vanished without a goodbye, said by its last will
"""

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
_LLAMA = MODELS["llama-3.3-70b"]
"""The model of a job that names none."""
_SEQUENCE_TOKENS = 8_192


class _Job(Model):
    """Fields of every kind of job."""

    name: Segment
    on: Paths
    """Addresses of UltraServers or instances, or ranges such as `uc1/us-0001..us-0008`."""
    starts_at_s: Seconds | None = None
    """Simulated start in seconds, with a visible ramp. None for a job in the middle of its life."""
    ends_at_s: Positive | None = None
    """Simulated end in seconds; its instances are idle from then on."""

    @model_validator(mode="after")
    def _life(self) -> Self:
        if self.ends_at_s is not None and self.ends_at_s <= (self.starts_at_s or 0.0):
            raise ValueError(
                f"ends_at_s {self.ends_at_s:g} must be after starts_at_s,"
                f" {self.starts_at_s or 0.0:g}"
            )
        return self


class _Started(_Job):
    """Fields of jobs with a start: it compiles, loads weights, and warms up."""

    compile_s: Seconds = 240.0
    """Time to compile its graphs at its first start: assumed, so that a first start takes the 5 to
    10 minutes that are published (Neuron documentation). Later starts find them in the cache."""
    startup_s: Length = 60.0
    """Time from loaded weights to full speed: first collectives, steps and requests (assumed). With
    a model its weights load before, by their size."""


class _Steps(_Started):
    """A synchronous job of optimizer steps: a step lasts as long as its slowest chip.

    The FLOPs of a step are those of its tokens, and take `step_time_s` at `mfu`. Of
    `tokens_per_step`, `step_time_s` and `mfu` one follows from the others and the model; a file
    with all three is refused where they contradict each other. Without a model they imply its
    parameters.
    """

    step_time_s: Length = 8.0
    """Time of one step without slow parts. With a model it is computed from `tokens_per_step` and
    `mfu` unless set."""
    compute_share: Share = 0.72
    """Share of a step spent in forward and backward passes, with their tensor-parallel traffic.
    Derived with a model."""
    collective_share: Share = 0.20
    """Share of a step spent in gradient collectives that compute does not hide. Derived with a
    model, and a smaller one is refused."""
    mfu: Share = 0.40
    """Model FLOP/s utilisation over a whole step, of the dense peak of `dtype`. The FLOPs are the
    model's: recomputation does not count."""
    dtype: Literal["bf16", "fp8"] = "bf16"
    """Type of the products' operands; `mfu` is relative to its peak."""
    tensor_active: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the compute phase in which the tensor engine is active. By default from the job's
    FLOPs at an active engine's efficiency. Power follows it; `mfu` does not change it."""
    tokens_per_step: Positive = 4_194_304.0
    hbm_used: Share = 0.78
    """Share of HBM in use. With a model it follows from weights, gradients, optimizer state and
    activations; a smaller one is refused."""
    checkpoint_every_steps: Steps = 200
    """Steps between checkpoints; 0 for none."""
    checkpoint_s: Length = 12.0
    """Time of a checkpoint at the full bandwidth of the shared storage. With a model it follows
    from the size of the optimizer state."""
    data_stall_every_steps: Steps = 0
    """Steps between waits for the input pipeline, counted from each checkpoint; 0 for none."""
    data_stall_s: Length = 1.5
    """Mean length of a data stall. Single ones last half to one and a half times as long."""

    profile: str | None = None
    """Kind of training (`claude-like-pretraining`): defaults for omitted keys."""
    model: str | None = None
    """Name of a model (`llama-3.1-405b`): fills in `parameters`, `active_parameters`, `layers` and
    `hidden`."""
    parameters: Positive | None = None
    """Parameters of the model. With them FLOPs, traffic, memory and the times of the phases are
    derived from the parallelism."""
    active_parameters: Positive | None = None
    """Active parameters per token in a mixture of experts; by default all."""
    flops_per_token: Positive | None = None
    """Model FLOPs of a token. By default six for each active parameter, forward and backward, and
    with `adapter_parameters` four for each active parameter and six for each of the adapters'.
    Reinforcement learning states its own."""
    layers: Count = _LLAMA.layers
    hidden: Count = _LLAMA.hidden
    """Width of the residual stream."""
    sequence_length: Count = _SEQUENCE_TOKENS
    """Tokens of a sequence; a microbatch is one sequence."""
    tensor_parallel: Count | None = None
    """Chips that share every layer, a divisor of an instance's chips. 1, 2, 4 (a row of the torus),
    8 or 16 of a Trn2 instance; by default all of an instance."""
    pipeline_parallel: Count = 1
    """Stages of consecutive layers."""
    microbatches: Count | None = None
    """Microbatches of a step and replica; by default one for each sequence."""
    overlap: Annotated[float, Field(ge=0, le=0.95)] = 0.7
    """Share of the gradient collectives hidden behind the backward pass (assumed)."""
    recompute: Share = 0.0
    """Share of the forward pass repeated in the backward pass to save activations in HBM. It is
    activity and time without model FLOPs: it lowers an `mfu` not set in the file."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        profile = data.get("profile")
        if isinstance(profile, str):
            given = _known("profile", profile, TRAINING_PROFILES)
            if "tokens_per_step" in data:
                # Of tokens, time and MFU of a step two are enough, and the file's own come first.
                follows = "mfu" if "step_time_s" in data else "step_time_s"
                given = {key: value for key, value in given.items() if key != follows}
            data = given | data
        name = data.get("model")
        if not isinstance(name, str):
            return data
        facts = _known("model", name, MODELS)
        filled = {
            "parameters": facts.parameters,
            "active_parameters": facts.active_parameters,
            "layers": facts.layers,
            "hidden": facts.hidden,
        }
        if "parameters" in data:
            # Another model size: its active parameters follow from it.
            del filled["active_parameters"]
        return filled | data

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.compute_share <= 0 or self.compute_share + self.collective_share > 1:
            raise ValueError(
                f"compute_share {self.compute_share} + collective_share {self.collective_share}"
                " must be above 0 and at most 1 (the rest is the optimizer)",
            )
        sizes = {kind.chips for kind in INSTANCE_TYPES.values()}
        if self.tensor_parallel is not None and all(size % self.tensor_parallel for size in sizes):
            *some, last = [
                str(degree)
                for degree in range(1, max(sizes) + 1)
                if any(size % degree == 0 for size in sizes)
            ]
            raise ValueError(
                f"tensor_parallel {self.tensor_parallel}: choose {', '.join(some)} or {last}, a"
                " divisor of an instance's chips"
            )
        keys = self.model_fields_set & {
            "active_parameters",
            "adapter_parameters",
            "tensor_parallel",
            "pipeline_parallel",
            "microbatches",
            "layers",
            "hidden",
            "recompute",
        }
        if self.parameters is None and keys:
            raise ValueError(
                f"{min(keys)} needs parameters or model: the traffic is derived from them"
            )
        if self.parameters is not None and (self.active_parameters or 0.0) > self.parameters:
            raise ValueError(
                f"active_parameters {self.active_parameters:g} must be at most parameters,"
                f" {self.parameters:g}"
            )
        return self

    @property
    def trained_parameters(self) -> float:
        """Parameters with gradients, optimizer state and checkpoints; 0 without a model."""
        return self.parameters or 0.0

    @property
    def forward_flops(self) -> float:
        """FLOPs per token of the forward pass.

        Two for each active parameter; 0 without a model.
        """
        return 2.0 * (self.active_parameters or self.parameters or 0.0)

    @property
    def model_flops(self) -> float | None:
        """Model FLOPs of a token; None if neither the file nor a model has them."""
        return self.flops_per_token or 3.0 * self.forward_flops or None


class Training(_Steps):
    """A pre-training job: steps without end, and a checkpoint now and then."""

    kind: Literal["training"]


class FineTuning(_Steps):
    """A chain of short runs: steps, a checkpoint, an evaluation and a pause."""

    kind: Literal["finetuning"]
    checkpoint_every_steps: Count = 240
    """Steps of a run; its end is its checkpoint."""
    adapter_parameters: Positive | None = None
    """Parameters of adapters (LoRA). Only these are trained: gradients, optimizer state and
    checkpoints are theirs."""
    evaluation_s: Seconds = 40.0
    """Time of the evaluation (text generation) after a run."""
    pause_s: Seconds = 90.0
    """Idle time between an evaluation and the next run."""

    @property
    def trained_parameters(self) -> float:
        """Parameters of the adapters, if any."""
        return self.adapter_parameters or super().trained_parameters

    @property
    def model_flops(self) -> float | None:
        """With adapters the frozen weights have no gradients of their own."""
        if self.flops_per_token is None and self.adapter_parameters is not None:
            return 2.0 * self.forward_flops + 6.0 * self.adapter_parameters
        return super().model_flops


class Peak(Model):
    """A peak of load above the daily curve, such as a sale.

    Either at an instant or at an hour of every day.
    """

    at_s: Seconds | None = None
    """Simulated seconds after the start."""
    at_hour_utc: Annotated[float, Field(ge=0, lt=24)] | None = None
    """Time of day, on every day."""
    for_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    factor: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
    """Factor on the offered load."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.at_s is None) == (self.at_hour_utc is None):
            raise ValueError("a peak has either at_s or at_hour_utc")
        return self


class Inference(_Started):
    """A serving job: requests go to its replicas.

    Prefill is bound by compute, decode by HBM and overheads. Times, traffic and HBM in use follow
    from the model, the replica's chips and the requests.
    """

    kind: Literal["inference"]
    profile: str | None = None
    """Kind of serving (`llama-405b-latency`, `shopping-assistant`, `llama-70b`): defaults for the
    keys below."""
    model: str | None = None
    """Name of a model: fills in `parameters`, `layers`, `model_bytes` and `kv_bytes_per_token`."""
    dtype: Literal["bf16", "fp8"] = "bf16"
    """Type of the weights; computed is in BF16 (assumed)."""
    speculative_tokens: Annotated[int, Field(ge=0, le=64)] = 0
    """Tokens proposed by a draft model, Llama 3.2 1B, before each pass of the model. 0 disables it.
    """
    chips_per_replica: Count | None = None
    """Chips per copy of the model; by default all of an instance."""
    model_bytes: Positive = _LLAMA.weight_bytes
    """Bytes of weights read by every decode pass; 141.2 GB is Llama-3.3-70B in BF16."""
    parameters: Positive | None = None
    """Active parameters; by default as many as `model_bytes` hold."""
    layers: Count = _LLAMA.layers
    kv_bytes_per_token: Positive | None = None
    """KV cache of one token. By default 8,192 tokens use 2 % of the weights, like Llama-3.3-70B."""
    context_tokens: Count = _SEQUENCE_TOKENS
    """Mean tokens of a sequence, in and out; the KV cache has room for as many."""
    input_tokens: Count | None = None
    """Mean tokens of a prompt; by default `context_tokens` minus the output tokens."""
    output_tokens: Count | None = None
    """Mean output tokens of a request; by default an eighth of `context_tokens` (assumed)."""
    tpot_s: Positive | None = None
    """Time per output token at batch 1; by default computed from the model."""
    ttft_s: Positive | None = None
    """Mean time to first token without queueing; by default computed from the model."""
    max_batch: Count = 32
    load_mean: Share = 0.55
    """Mean load over a day, as a share of the replicas' capacity."""
    load_swing: Share = 0.25
    """Swing of the daily curve above and below the mean."""
    peak_hour_utc: Annotated[float, Field(ge=0, lt=24)] = 18.0
    peaks: tuple[Peak, ...] = ()
    hbm_used: Share | None = None
    """Share of HBM in use at half a batch. By default weights, KV cache and the runtime."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens that prefill works through."""
        return self.input_tokens or self.context_tokens - self.answer_tokens

    @property
    def answer_tokens(self) -> int:
        """Tokens that a request puts out."""
        if self.output_tokens is not None:
            return self.output_tokens
        if self.input_tokens is not None:
            return self.context_tokens - self.input_tokens
        return max(self.context_tokens // 8, 1)

    @property
    def active_parameters(self) -> float:
        """Parameters that a token passes through."""
        return self.parameters or self.model_bytes / BYTES_PER_VALUE[self.dtype]

    def replica_chips(self, instance_chips: int) -> int:
        """Return the chips of a replica on instances with a number of chips."""
        return self.chips_per_replica or instance_chips

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        profile = data.get("profile")
        if isinstance(profile, str):
            defaults = _known("profile", profile, PROFILES)
            if _TOKENS & data.keys():
                # The file's own request, as a whole.
                defaults = {key: value for key, value in defaults.items() if key not in _TOKENS}
            data = defaults | data
        given = data.get("input_tokens")
        put_out = data.get("output_tokens")
        if isinstance(given, int) and isinstance(put_out, int):
            data = {"context_tokens": given + put_out} | data
        name = data.get("model")
        if isinstance(name, str):
            facts = _known("model", name, MODELS)
            filled = {
                "parameters": facts.parameters,
                "layers": facts.layers,
                "kv_bytes_per_token": facts.kv_bytes_per_token,
            }
            if data.get("dtype", "bf16") in BYTES_PER_VALUE:
                filled["model_bytes"] = (
                    facts.parameters * BYTES_PER_VALUE[data.get("dtype", "bf16")]
                )
            data = filled | data
        return data

    @model_validator(mode="after")
    def _tokens(self) -> Self:
        both = self.input_tokens is not None and self.output_tokens is not None
        tokens = (self.input_tokens or 0) + (self.output_tokens or 0)
        if both and tokens != self.context_tokens:
            raise ValueError(
                f"input_tokens {self.input_tokens} and output_tokens {self.output_tokens} are"
                f" {tokens} tokens, but context_tokens is {self.context_tokens}: leave one out"
            )
        if not both and tokens >= self.context_tokens > 1:
            raise ValueError(
                f"context_tokens {self.context_tokens} must be more than the {tokens} input or"
                " output tokens"
            )
        return self


class Reserved(_Job):
    """Reserved instances with the runtime loaded and nothing executing."""

    kind: Literal["reserved"]
    hbm_used: Share = 0.03
    """Share of HBM used by the loaded runtime (assumed)."""


class Traced(_Started):
    """A job whose NeuronCore utilisation follows a recording."""

    kind: Literal["trace"]
    file: Annotated[str, Field(min_length=1, max_length=1_000)]
    """neuron-monitor documents (`.ndjson`, `.json`), or CSV with the header
    `time_s,utilization_pct`. Relative to the fleet file."""
    loop: bool = True
    """Whether the recording starts again at its end; else its last value holds."""
    like: Literal["training", "inference"] = "training"
    """Activity of the chips while their cores are busy; the recording has none."""
    mfu: Share = 0.35
    """Model FLOP/s utilisation while the cores are fully busy (assumed)."""
    hbm_used: Share = 0.6


_TOKENS = {"context_tokens", "input_tokens", "output_tokens"}

Job = Annotated[Training | Inference | FineTuning | Reserved | Traced, Field(discriminator="kind")]


def _known(what: str, name: str, choices: Mapping[str, ChoiceT]) -> ChoiceT:
    if name not in choices:
        raise ValueError(f"unknown {what} {name!r}: {nearest(name, choices)}")
    return choices[name]
