"""What an engine's name on the command line opens, and what the package never loads by itself."""

import asyncio
import subprocess
import sys

import pytest

from deepseek_recipe.adapters import EngineUnavailable
from deepseek_recipe.adapters.select import open_engine

IMPORT_ALL = """
import importlib, pkgutil, sys
import deepseek_recipe
for module in pkgutil.walk_packages(deepseek_recipe.__path__, "deepseek_recipe."):
    # vLLM imports what is in its plug-in.
    if not module.name.endswith("__main__") and not module.name.startswith("deepseek_recipe.plugins.vllm."):
        importlib.import_module(module.name)
assert "deepseek_recipe.adapters.local" in sys.modules
print(sorted({"torch", "numpy", "deepseek_engine", "vllm", "transformers"} & sys.modules.keys()))
"""


def test_no_module_loads_the_engine_by_itself() -> None:
    """The codec and its server work without torch, and start as fast where it is installed."""
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_local_without_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepseek_engine", None)
    with pytest.raises(EngineUnavailable, match=r"pip install 'deepseek-recipe\[engine\]'"):
        asyncio.run(open_engine("local"))


@pytest.mark.parametrize("name", ["", "other", "locally", "local+x:", "ftp://127.0.0.1"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected one of"):
        asyncio.run(open_engine(name))
