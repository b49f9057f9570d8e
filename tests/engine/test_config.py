"""Configurations: what is read, what is refused, and by which name."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepseek_engine.config import PRESETS, ConfigError, ModelConfig
from deepseek_engine.engram import HashLayout
from deepseek_engine.limits import EngineConfig

TINY, FLASH = PRESETS["tiny"], PRESETS["flash"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_configuration_reads_back(name: str) -> None:
    """`from_dict` of `to_dict` is the same configuration, also through JSON and with some of the layers."""
    config = PRESETS[name]
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    some = config.with_layers((0, 1, 2, 3, 20, 21) if name == "flash" else (0, 1, 4))
    assert ModelConfig.from_dict(some.to_dict()) == some


def test_the_layer_plan_of_the_released_model() -> None:
    """Each block reads the latest source at or before it, and the Engram tables have the published rows."""
    assert [FLASH.kv_source(layer) for layer in (2, 7, 8, 19, 20, 39)] == [2, 2, 8, 14, 20, 20]
    assert [FLASH.index_source(layer) for layer in (23, 24, 31, 39)] == [20, 24, 28, 36]
    assert FLASH.decoder_start == 20
    assert [layout.rows for layout in HashLayout.of(FLASH).values()] == [384006168, 384016682]


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (["text_config", "hidden_size"], None, "'hidden_size' is missing"),
        (["text_config", "hidden_size"], "5120", "'hidden_size' is '5120'"),
        (["text_config", "hidden_size"], 0, "'hidden_size' is 0"),
        (["text_config", "rms_norm_eps"], True, "'rms_norm_eps' is True"),
        (["text_config", "scoring_func"], "softmax", "'scoring_func' is 'softmax'"),
        (["text_config", "num_hash_layers"], 3, "'num_hash_layers' is 3"),
        (["text_config", "hc_shifted"], False, "'hc_shifted' is False"),
        (["text_config", "rope_scaling"], {"factor": 16}, "'rope_scaling'"),
        (["text_config", "rope_scaling", "factor"], 0, "'rope_scaling' has a value"),
        (["text_config", "hc_eps"], float("nan"), "'hc_eps' is nan"),
        (["text_config", "compress_rope_theta"], 1, "'compress_rope_theta' is not above 1"),
        (["text_config", "compress_ratios"], [0] * 43, "no decoder"),
        (["text_config", "kv_source_layer_ids"], [2, 8, 14], "layer 20"),
        (["text_config", "kv_source_layer_ids"], [8, 14, 20], "layer 2 "),
        (["text_config", "index_source_layer_ids"], [2, 8, 20], "'kv_source_layer_ids'"),
        (["text_config", "index_k_source_layer_ids"], [2], "'index_k_source_layer_ids'"),
        (["text_config", "candidate_source_layer_id"], 14, "'candidate_source_layer_id' is before"),
        (["text_config", "candidate_source_layer_id"], 21, "'candidate_source_layer_id' is not in"),
        (["text_config", "num_hidden_layers"], 10**12, "'compress_ratios' has 43 entries"),
        (["text_config", "kv_source_layer_ids"], 2, "'kv_source_layer_ids' is 2"),
        (["text_config"], [], "'text_config' is not an object"),
        (["text_config", "engram_layer_ids"], [1, 25], "layer of the decoder"),
        (["quantization_config", "weight_block_size"], [128, 128], "'quantization_config.weight_block_size'"),
        (["model_type"], "deepseek_v4", "'model_type'"),
    ],
)
def test_a_configuration_that_is_not_computed_is_refused(path: list[str], value: Any, text: str) -> None:
    """A missing key, a wrong type, another value of a fixed key or a plan that does not fit is refused by name."""
    config = json.loads(json.dumps(FLASH.to_dict()))
    inner = config
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    with pytest.raises(ConfigError) as error:
        ModelConfig.from_dict(config)
    assert text in str(error.value)


def test_unknown_keys_are_named_once_and_optional_ones_may_be_absent() -> None:
    """A key that the parser does not know is a warning, an optional one that is absent is not."""
    config = TINY.to_dict()
    del config["text_config"]["hc_shifted"]
    config["text_config"]["a_new_key"] = 1
    with pytest.warns(UserWarning, match="a_new_key"):
        assert ModelConfig.from_dict(config) == TINY


@pytest.mark.parametrize("content", ["", "[]", "{}", "\xff"])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: str) -> None:
    """Anything that is not the object expected raises `ConfigError`."""
    (tmp_path / "config.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError):
        ModelConfig.from_file(tmp_path / "config.json")


def test_layers_whose_source_is_absent_are_refused() -> None:
    """A subset of layers must hold the sources of each."""
    with pytest.raises(ConfigError, match="layer 9 needs layer 8"):
        FLASH.with_layers((0, 1, 2, 9))
    with pytest.raises(ConfigError, match="layer 24 needs layer 20"):
        FLASH.with_layers((0, 24, 25))


def test_moduli_are_checked_against_the_configuration() -> None:
    """A model whose tables have other rows than the layout gives is refused."""
    with pytest.raises(ConfigError, match="engram_num_embeddings"):
        HashLayout.of(replace(TINY, engram_num_embeddings=(4063,)))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"page_size": 17}, "'page_size'"),
        ({"page_size": 2}, "candidate blocks"),
        ({"num_pages": 1}, "'num_pages'"),
        ({"max_num_seqs": 0}, "'max_num_seqs'"),
        ({"max_num_batched_tokens": -1}, "'max_num_batched_tokens'"),
        ({"max_model_len": 2048}, "'max_model_len'"),
        ({"max_backtracking_tokens": -1}, "'max_backtracking_tokens'"),
        ({"prefill_watermark": 1.5}, "'prefill_watermark'"),
        ({"preemption": "swap"}, "'preemption'"),
        ({"token_blacklist": (512,)}, "'token_blacklist'"),
        ({"token_blacklist": tuple(range(512))}, "leaves no token"),
    ],
)
def test_engine_settings_outside_the_guards_are_refused(change: dict[str, Any], text: str) -> None:
    """Settings that the engine cannot keep its promises with are refused by name."""
    EngineConfig(page_size=16, max_model_len=1024).check(TINY)
    with pytest.raises(ConfigError) as error:
        replace(EngineConfig(page_size=16, max_model_len=1024), **change).check(TINY)
    assert text in str(error.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 50) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_configuration_is_read_or_refused(data: st.DataObject) -> None:
    """Whatever stands in place of a value, the file is read or refused with `ConfigError`."""
    config = json.loads(json.dumps(TINY.to_dict()))
    for _ in range(data.draw(st.integers(1, 3))):
        inner = config
        key = data.draw(st.sampled_from(sorted(inner)))
        if key == "text_config" and isinstance(inner[key], dict) and inner[key] and data.draw(st.booleans()):
            inner = inner[key]
            key = data.draw(st.sampled_from(sorted(inner)))
        inner[key] = data.draw(JSON)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ModelConfig.from_dict(config)
        except ConfigError as error:
            assert str(error)
