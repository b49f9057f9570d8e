"""vLLM as the tests of the plug-in see it: the installed package, or else stand-ins."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import stand_ins
from deepseek_recipe.plugins import vllm as plugin


@pytest.fixture(scope="module")
def vllm() -> Iterator[Any]:
    """By short names: what the plug-in is made of, and the modules of vLLM that the tests need besides."""
    with pytest.MonkeyPatch.context() as patch:
        installed = importlib.util.find_spec("vllm") is not None
        if not installed:
            for name, members in stand_ins.MODULES.items():
                module = ModuleType(name)
                vars(module).update(members)
                patch.setitem(sys.modules, name, module)
        ours = {
            name: importlib.import_module(f"{plugin.__name__}.{name}") for name in ("tokenizer", "renderer", "parsers")
        }
        theirs = {name.rpartition(".")[2]: sys.modules.get(name) or importlib.import_module(name) for name in (
            "vllm.exceptions", "vllm.reasoning", "vllm.tool_parsers", "vllm.renderers.params",
        )}  # fmt: skip
        tools = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol").ChatCompletionToolsParam
        function = importlib.import_module("vllm.entrypoints.generate.base.protocol").FunctionDefinition
        registries = {
            "tokenizers": importlib.import_module("vllm.tokenizers.registry").TokenizerRegistry.tokenizers,
            "renderers": importlib.import_module("vllm.renderers.registry").RENDERER_REGISTRY.renderers,
        }
        yield SimpleNamespace(
            **ours, **theirs, installed=installed, tool=tools, function=function, registries=registries
        )
        for name in ours:
            del sys.modules[f"{plugin.__name__}.{name}"]
            delattr(plugin, name)
