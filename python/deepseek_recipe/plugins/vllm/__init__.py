"""What vLLM loads by the entry point `deepseek_recipe` (`vllm.general_plugins`). Interfaces as in vLLM 0.33.

The modules beside this one derive from vLLM's classes: vLLM imports them, by their names, when it was told to use them.
"""

from __future__ import annotations

import importlib
from typing import Any

NAME = "deepseek_recipe"
"""What `--tokenizer-mode`, `--reasoning-parser` and `--tool-call-parser` are given. The renderer goes with the mode."""


def register() -> None:
    """Makes the names known. vLLM calls it in each of its processes; a second call changes nothing."""
    tokenizers: Any = importlib.import_module("vllm.tokenizers.registry")
    renderers: Any = importlib.import_module("vllm.renderers.registry")
    reasoning: Any = importlib.import_module("vllm.reasoning")
    tools: Any = importlib.import_module("vllm.tool_parsers")

    if NAME in renderers.RENDERER_REGISTRY.renderers:
        return
    tokenizers.TokenizerRegistry.register(NAME, f"{__name__}.tokenizer", "RecipeTokenizer")
    renderers.RENDERER_REGISTRY.register(NAME, f"{__name__}.renderer", "RecipeRenderer")
    reasoning.ReasoningParserManager.register_lazy_module(NAME, f"{__name__}.parsers", "RecipeReasoningParser")
    tools.ToolParserManager.register_lazy_module(NAME, f"{__name__}.parsers", "RecipeToolParser")
