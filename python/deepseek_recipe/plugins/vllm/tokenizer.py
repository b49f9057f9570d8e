"""vLLM's tokenizer mode: the checkpoint's own tokenizer, whose text becomes ids by the codec.

vLLM's detokenizer and its grammars need the class of `transformers`, so everything else stays as it is there.
"""

# What is inherited from vLLM has no types here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
import importlib
from collections.abc import Sequence
from typing import Any

from ..._native import ConversionOptions, ModelVersion, SpecialTokens, Tokenizer
from ...recipe import Recipe

_transformers: Any = importlib.import_module("transformers")
_hf: Any = importlib.import_module("vllm.tokenizers.hf")

_IMAGE = "<｜deepseek_image｜>"
"""How released checkpoints spell the placeholder of an image."""

_PLAIN = {"add_special_tokens", "truncation", "max_length"}
"""Arguments of a call that the codec serves, as long as nothing has to be cut off."""


class RecipeTokenizer:
    """What vLLM loads the tokenizer with."""

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """The tokenizer of a folder or repository. Raises `ValueError` where it is not one of DeepSeek V4 or V4.1."""
        return _hf.get_cached_tokenizer(with_codec(_transformers.TokenizersBackend.from_pretrained(*args, **kwargs)))


def with_codec(tokenizer: Any, codec: Tokenizer | None = None) -> Any:
    """The tokenizer of `transformers` with `recipe`, a `Recipe` of its vocabulary, and `codec`, its `Tokenizer`.

    Raises `ValueError` where its vocabulary is none of DeepSeek V4 or V4.1.
    """
    try:
        found = codec or Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    except RuntimeError as error:
        raise ValueError(f"deepseek_recipe cannot use this tokenizer: {error}") from error
    ids_of(found, "｜DSML｜")
    options = ConversionOptions()
    if found.special_id(_IMAGE) is not None:
        options = options.with_special_tokens(SpecialTokens(image=_IMAGE))
    before: list[int] = tokenizer("")["input_ids"]
    if tokenizer("a")["input_ids"] != [*before, *found.encode("a")]:
        raise ValueError("deepseek_recipe cannot use this tokenizer: it puts tokens behind texts")

    class _WithCodec(tokenizer.__class__):
        codec = found
        recipe = Recipe(model=version(found), tokenizer=found, options=options)

        def encode(self, text: Any, *args: Any, **kwargs: Any) -> list[int]:
            return self(text, *args, **kwargs)["input_ids"]

        def __call__(self, text: Any = None, *args: Any, **kwargs: Any) -> Any:
            ids = None if args or not isinstance(text, str) or kwargs.keys() - _PLAIN else found.encode(text)
            if ids is not None and kwargs.get("add_special_tokens", True):
                ids = [*before, *ids]
            if ids is None or (kwargs.get("truncation") and len(ids) > (kwargs.get("max_length") or 0)):
                return super().__call__(text, *args, **kwargs)
            return _transformers.BatchEncoding({"input_ids": ids, "attention_mask": [1] * len(ids)})

        def apply_chat_template(self, conversation: Any, tools: Any = None, **kwargs: Any) -> Any:
            from .renderer import body, encode

            encoded = encode(self, body(conversation, {**kwargs, "tools": tools}))
            return encoded.token_ids.tolist() if kwargs.get("tokenize", True) else encoded.prompt

        def __reduce__(self) -> Any:
            return with_codec, (tokenizer, found)

    made = copy.copy(tokenizer)
    made.__class__ = _WithCodec
    return made


def codec_of(tokenizer: Any) -> Tokenizer:
    """The codec's tokenizer in one of vLLM's. Raises `ValueError` for one of another mode."""
    found = getattr(tokenizer, "codec", None)
    if not isinstance(found, Tokenizer):
        raise ValueError("deepseek_recipe parses and renders with --tokenizer-mode deepseek_recipe")
    return found


def version(codec: Tokenizer) -> ModelVersion:
    """Which model has this vocabulary."""
    new = codec.special_id("<｜System｜>") is not None
    return ModelVersion.DeepseekV41Flash if new else ModelVersion.DeepseekV4Pro


def ids_of(codec: Tokenizer, *spellings: str) -> Sequence[int]:
    """The ids of added tokens. Raises `ValueError` where one is missing."""
    found = [codec.special_id(spelling) for spelling in spellings]
    if None in found:
        raise ValueError(f"the tokenizer has no {spellings[found.index(None)]}")
    return [id for id in found if id is not None]
