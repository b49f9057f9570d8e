"""What the model is: its sizes and its layer plan, as `config.json` has them. Knows no tensor."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any


class ConfigError(ValueError):
    """A configuration that the engine does not run; the text names the key."""


@dataclass(frozen=True)
class RopeScaling:
    """YaRN: angles of slow pairs are divided by `factor`. Only layers that read a compressed cache use it."""

    factor: float = 16.0
    original_max_position_embeddings: int = 65536
    beta_fast: float = 32.0
    beta_slow: float = 1.0


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a DeepSeek-V4.1 model; the defaults are those of DeepSeek-V4.1-Flash.

    `layers` are the blocks that exist, by their number in the full model. It is shorter than `num_hidden_layers` where
    only some blocks of a checkpoint are loaded. `quantised` says how a checkpoint stores the large matrices.
    """

    vocab_size: int = 129280
    hidden_size: int = 5120
    num_hidden_layers: int = 40
    num_attention_heads: int = 64
    head_dim: int = 512
    qk_rope_head_dim: int = 64
    q_lora_rank: int = 1280
    o_groups: int = 8
    o_lora_rank: int = 1024
    rms_norm_eps: float = 1e-20
    rope_theta: float = 10000.0
    compress_rope_theta: float = 160000.0
    rope_scaling: RopeScaling = RopeScaling()
    max_position_embeddings: int = 1048576
    sliding_window: int = 128
    compress_ratios: tuple[int, ...] = (0,) * 2 + (2,) * 18 + (1,) * 20 + (0,) * 3
    kv_source_layer_ids: tuple[int, ...] = (2, 8, 14, 20)
    index_source_layer_ids: tuple[int, ...] = (2, 8, 14, 20, 24, 28, 32, 36)
    index_n_heads: int = 32
    index_head_dim: int = 128
    index_topk: int = 512
    candidate_source_layer_id: int = 20
    candidate_topk_blocks: int = 2048
    candidate_block_size: int = 8
    hc_mult: int = 4
    hc_sinkhorn_iters: int = 20
    hc_eps: float = 1e-6
    n_routed_experts: int = 384
    num_experts_per_tok: int = 6
    moe_intermediate_size: int = 2304
    routed_scaling_factor: float = 1.5
    swiglu_limit: float = 10.0
    tie_word_embeddings: bool = False
    engram_layer_ids: tuple[int, ...] = (1, 14)
    engram_max_ngram_size: int = 4
    engram_vocab_size: int = 16_000_000
    engram_n_heads: int = 8
    engram_head_dim: int = 256
    engram_pad_token_id: int = 2
    engram_compressed_vocab_size: int = 99092
    engram_num_embeddings: tuple[int, ...] = (384006168, 384016682)
    num_nextn_predict_layers: int = 3
    dspark_block_size: int = 5
    dspark_noise_token_id: int = 128799
    dspark_target_layer_ids: tuple[int, ...] = (37, 38, 39)
    dspark_markov_rank: int = 256
    dspark_n_routed_experts: int = 128
    dspark_num_experts_per_tok: int = 3
    bos_token_id: int = 0
    eos_token_id: int = 1
    pad_token_id: int = 2
    dtype: str = "bfloat16"
    quantised: bool = True
    layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ConfigError(problem)
        if not self.layers:
            object.__setattr__(self, "layers", tuple(range(self.num_hidden_layers)))

    def ratio(self, layer: int) -> int:
        """Tokens per entry of the compressed cache that a block reads; 0: it reads none."""
        return self.compress_ratios[layer]

    def kv_source(self, layer: int) -> int:
        """The block whose compressor writes the entries that this block reads."""
        return _latest(self.kv_source_layer_ids, layer)

    def index_source(self, layer: int) -> int:
        """The block whose indexer chose the entries that this block reads."""
        return _latest(self.index_source_layer_ids, layer)

    @property
    def kv_sources(self) -> tuple[int, ...]:
        """The blocks with a compressor, of those that exist."""
        return tuple(layer for layer in self.kv_source_layer_ids if layer in self.layers)

    @property
    def decoder_start(self) -> int:
        """The first block of the decoder: its compressed cache is the last that is written."""
        return self.compress_ratios.index(1)

    def with_layers(self, layers: tuple[int, ...]) -> ModelConfig:
        """The same model with some of its blocks. They keep their numbers."""
        return replace(self, layers=layers)

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> ModelConfig:
        """Reads the content of a `config.json`.

        Raises:
            ConfigError: a key is missing, or has a value that this engine does not compute. Unknown keys only warn.
        """
        text = config.get("text_config", config)
        if not isinstance(text, Mapping):
            raise ConfigError("config.json: 'text_config' is not an object")
        _check_fixed(config, text)
        values: dict[str, Any] = {}
        for field in fields(cls):
            name = field.name
            if name == "quantised":
                values[name] = config.get("quantization_config") is not None
            elif name in text or name in config:
                values[name] = _read(name, text.get(name, config.get(name)), getattr(cls, name))
            elif name != "layers":
                raise ConfigError(f"config.json: '{name}' is missing")
        parsed = cls(**values)
        known = {field.name for field in fields(cls)} | _FIXED.keys() | _FIXED_TOP.keys() | _IGNORED
        unknown = sorted((set(config) | set(text)) - known)
        if unknown:
            warnings.warn(f"config.json: keys that the engine does not read: {', '.join(unknown)}", stacklevel=2)
        return parsed

    @classmethod
    def from_file(cls, path: Path) -> ModelConfig:
        """Reads a `config.json`. Raises `ConfigError`, also where the file is no JSON object."""
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: {error}") from error
        if not isinstance(config, dict):
            raise ConfigError(f"{path}: not a JSON object")
        return cls.from_dict(config)

    def to_dict(self) -> dict[str, Any]:
        """The content of a `config.json` that `from_dict` reads back."""
        top = {name: getattr(self, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id", "dtype")}
        text = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in top and field.name != "quantised"
        }
        text["rope_scaling"] = dict(vars(self.rope_scaling))
        if self.layers == tuple(range(self.num_hidden_layers)):
            del text["layers"]
        config = {"architectures": [_ARCHITECTURE], "model_type": "deepseek_v41", **top}
        if self.quantised:
            config["quantization_config"] = _FIXED_TOP["quantization_config"]
        return {**config, "text_config": {**text, **_FIXED}}


_ARCHITECTURE = "DeepseekV41ForCausalLM"

# Keys with one value that this engine computes. They may be absent.
_FIXED: dict[str, Any] = {
    "num_key_value_heads": 1,
    "n_shared_experts": 1,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hc_shifted": True,
    "num_hash_layers": 0,
    "dspark_target_attn_input": True,
}
_FIXED_TOP: dict[str, Any] = {
    "model_type": "deepseek_v41",
    "architectures": [_ARCHITECTURE],
    "quantization_config": {
        "quant_method": "fp8",
        "expert_dtype": "fp4",
        "activation_scheme": "dynamic",
        "weight_block_size": [32, 32],
        "scale_fmt": "ue8m0",
    },
}
# Checked elsewhere, or without a meaning for exact computation.
_IGNORED = {
    "text_config",
    "vision_config",
    "index_k_source_layer_ids",
    "use_fp4_sparse_kv",
}


def _check_fixed(config: Mapping[str, Any], text: Mapping[str, Any]) -> None:
    for source, expected in ((config, _FIXED_TOP), (text, _FIXED)):
        for name, value in expected.items():
            given = source.get(name)
            if isinstance(value, dict) and isinstance(given, Mapping):
                for key, inner in value.items():
                    if given.get(key, inner) != inner:
                        raise ConfigError(f"config.json: '{name}.{key}' is {given[key]!r}, only {inner!r} is computed")
            elif given is not None and given != value:
                raise ConfigError(f"config.json: '{name}' is {given!r}, only {value!r} is computed")
    sources = text.get("index_k_source_layer_ids")
    if sources is not None and sources != text.get("kv_source_layer_ids"):
        raise ConfigError("config.json: 'index_k_source_layer_ids' differs from 'kv_source_layer_ids'")


def _read(name: str, value: Any, default: Any) -> Any:
    """A value of `config.json` as the type that the field's default has."""
    try:
        if isinstance(default, RopeScaling):
            return RopeScaling(
                **{field.name: _read(field.name, value[field.name], field.default) for field in fields(default)}
            )
        if isinstance(default, tuple):
            return tuple(_read(name, item, 0) for item in value)
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if type(value) is type(default):
            return value
    except (KeyError, TypeError):
        pass
    raise ConfigError(f"config.json: '{name}' is {value!r}, expected a value like {default!r}")


def _latest(sources: tuple[int, ...], layer: int) -> int:
    return max(source for source in sources if source <= layer)


def _problems(config: ModelConfig) -> Iterator[str]:
    """What is wrong with the sizes, most basic first."""
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, int | float) and not isinstance(value, bool) and not field.name.endswith("_id"):
            if not 0 < value < math.inf:
                yield f"'{field.name}' is {value}, must be positive"
    if config.rope_theta <= 1 or config.compress_rope_theta <= 1:
        yield "'rope_theta' or 'compress_rope_theta' is not above 1"
    if not all(0 < value < math.inf for value in vars(config.rope_scaling).values()):
        yield "'rope_scaling' has a value that is not positive"
    if not 0 <= config.eos_token_id < config.vocab_size:
        yield f"'eos_token_id' is {config.eos_token_id}, the vocabulary has {config.vocab_size} ids"
    total = config.num_hidden_layers + config.num_nextn_predict_layers
    if len(config.compress_ratios) != total:
        yield f"'compress_ratios' has {len(config.compress_ratios)} entries, expected {total}"
    ratios = config.compress_ratios
    if any(ratio not in (0, 1, 2) for ratio in ratios):
        yield "'compress_ratios' has a value other than 0, 1 and 2"
    if any(ratios[config.num_hidden_layers :]):
        yield "'compress_ratios' is not 0 for the draft blocks"
    if 1 not in ratios:
        yield "'compress_ratios' has no block with ratio 1: there is no decoder"
    if config.dtype not in ("bfloat16", "float32", "float64"):
        yield f"'dtype' is {config.dtype!r}, expected bfloat16, float32 or float64"
    yield from _divisions(config)
    yield from _source_problems(config)
    yield from _subset_problems(config)


def _divisions(config: ModelConfig) -> Iterator[str]:
    if config.num_attention_heads % config.o_groups:
        yield "'num_attention_heads' is not a multiple of 'o_groups'"
    for name in ("head_dim", "index_head_dim"):
        if config.qk_rope_head_dim % 2 or config.qk_rope_head_dim > getattr(config, name):
            yield f"'qk_rope_head_dim' is odd or larger than '{name}'"
    if config.num_experts_per_tok > config.n_routed_experts:
        yield "'num_experts_per_tok' is larger than 'n_routed_experts'"
    if config.dspark_num_experts_per_tok > config.dspark_n_routed_experts:
        yield "'dspark_num_experts_per_tok' is larger than 'dspark_n_routed_experts'"
    if config.candidate_topk_blocks * config.candidate_block_size < config.index_topk:
        yield "the candidate blocks hold fewer entries than 'index_topk'"
    if config.engram_max_ngram_size < 2:
        yield "'engram_max_ngram_size' is less than 2"
    if len(config.engram_num_embeddings) != len(config.engram_layer_ids):
        yield "'engram_num_embeddings' and 'engram_layer_ids' differ in length"


def _source_problems(config: ModelConfig) -> Iterator[str]:
    ratios, kv, index = config.compress_ratios, config.kv_source_layer_ids, config.index_source_layer_ids
    for name in ("kv_source_layer_ids", "index_source_layer_ids", "engram_layer_ids", "dspark_target_layer_ids"):
        ids = getattr(config, name)
        if list(ids) != sorted(set(ids)) or any(not 0 <= layer < config.num_hidden_layers for layer in ids):
            yield f"'{name}' is not an ascending list of layers"
    if not set(kv) <= set(index):
        yield "'index_source_layer_ids' lacks a layer of 'kv_source_layer_ids'"
    if config.decoder_start not in kv:
        yield f"layer {config.decoder_start}, the first with ratio 1, is not in 'kv_source_layer_ids'"
    if config.candidate_source_layer_id not in index:
        yield "'candidate_source_layer_id' is not in 'index_source_layer_ids'"
    if kv and config.candidate_source_layer_id < kv[-1]:
        yield "'candidate_source_layer_id' is before the last of 'kv_source_layer_ids'"
    if any(layer >= config.decoder_start for layer in config.engram_layer_ids):
        yield "'engram_layer_ids' has a layer of the decoder"
    for layer in range(config.num_hidden_layers):
        if ratios[layer] and (not kv or layer < kv[0]):
            yield f"layer {layer} reads a compressed cache that no layer before it writes"
        elif ratios[layer] and ratios[config.kv_source(layer)] != ratios[layer]:
            yield f"layer {layer} and its source {config.kv_source(layer)} have different ratios"
        elif not ratios[layer] and layer in index:
            yield f"layer {layer} is a source but reads no compressed cache"


def _subset_problems(config: ModelConfig) -> Iterator[str]:
    layers = config.layers
    if list(layers) != sorted(set(layers)) or any(not 0 <= layer < config.num_hidden_layers for layer in layers):
        yield "the layers are not an ascending list of layers of the model"
    for layer in layers:
        if not config.ratio(layer):
            continue
        needed = {config.kv_source(layer), config.index_source(layer)}
        if config.index_source(layer) > config.candidate_source_layer_id:
            needed.add(config.candidate_source_layer_id)
        for source in sorted(needed - set(layers)):
            yield f"layer {layer} needs layer {source}, which is not among the layers"


_TINY = ModelConfig(
    vocab_size=512,
    hidden_size=64,
    num_hidden_layers=8,
    num_attention_heads=4,
    head_dim=32,
    qk_rope_head_dim=8,
    q_lora_rank=32,
    o_groups=2,
    o_lora_rank=16,
    rope_scaling=RopeScaling(factor=4.0, original_max_position_embeddings=64),
    max_position_embeddings=1024,
    sliding_window=8,
    compress_ratios=(0, 2, 2, 2, 1, 1, 1, 1, 0, 0),
    kv_source_layer_ids=(1, 4),
    index_source_layer_ids=(1, 4, 6),
    index_n_heads=2,
    index_head_dim=32,
    index_topk=8,
    candidate_source_layer_id=4,
    candidate_topk_blocks=4,
    candidate_block_size=4,
    n_routed_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    engram_layer_ids=(1,),
    engram_max_ngram_size=3,
    engram_vocab_size=1000,
    engram_n_heads=2,
    engram_head_dim=32,
    engram_compressed_vocab_size=512,
    engram_num_embeddings=(4062,),
    num_nextn_predict_layers=2,
    dspark_block_size=3,
    dspark_noise_token_id=511,
    dspark_target_layer_ids=(6, 7),
    dspark_markov_rank=16,
    dspark_n_routed_experts=4,
    dspark_num_experts_per_tok=2,
    dtype="float32",
    quantised=False,
)

PRESETS: dict[str, ModelConfig] = {
    "tiny": _TINY,
    "tiny-tok": replace(
        _TINY,
        vocab_size=129280,
        engram_compressed_vocab_size=129280,
        dspark_noise_token_id=128799,
        dspark_markov_rank=8,
    ),
    "flash": ModelConfig(),
}
"""`tiny` computes in milliseconds and has every kind of block; `tiny-tok` has the vocabulary of DeepSeek-V4.1, too;
`flash` has the sizes of DeepSeek-V4.1-Flash."""
