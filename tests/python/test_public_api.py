"""Every public name and signature of the reference is there."""

import inspect
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import deepseek_recipe

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "public_api.json").read_text(encoding="utf-8"))
# Defaults that the reference does not show, and those that are plain words here and not there.
HIDDEN = {"Ellipsis"}


def parameters(function: Any) -> list[list[object]]:
    found = inspect.signature(function).parameters.values()
    return [[p.name, p.kind.name, None if p.default is p.empty else repr(p.default)] for p in found]


def same(ours: list[list[object]], theirs: list[list[object]] | None) -> bool:
    """Whether a call that the reference takes is taken here: same parameters; further keywords may follow."""
    if theirs is None:
        return True
    kept = ours[: len(theirs)]
    further = ours[len(theirs) :]
    names_agree = [p[:2] for p in kept] == [p[:2] for p in theirs]
    defaults_agree = all(o[2] == t[2] or t[2] in HIDDEN for o, t in zip(kept, theirs, strict=False))
    return names_agree and defaults_agree and all(p[1] == "KEYWORD_ONLY" and p[2] is not None for p in further)


def test_all_names() -> None:
    assert set(REFERENCE) - set(deepseek_recipe.__all__) == set()
    assert all(hasattr(deepseek_recipe, name) for name in deepseek_recipe.__all__)
    assert len(set(deepseek_recipe.__all__)) == len(deepseek_recipe.__all__)


@pytest.mark.parametrize("name", [name for name, facts in REFERENCE.items() if facts["kind"] == "class"])
def test_class(name: str) -> None:
    facts, cls = REFERENCE[name], getattr(deepseek_recipe, name)
    assert [base.__name__ for base in cls.__mro__[1:]] == facts["bases"]
    if facts["parameters"] is None:
        assert "__new__" not in vars(cls) or issubclass(cls, Exception)
    else:
        assert same(parameters(cls), facts["parameters"]), parameters(cls)
    for member_name, member in facts["members"].items():
        ours = inspect.getattr_static(cls, member_name)
        if member["kind"] == "property":
            assert inspect.isgetsetdescriptor(ours), member_name
        elif member["kind"] == "attribute":
            assert repr(ours) == member["value"]
        else:
            assert isinstance(ours, staticmethod) == (member["kind"] == "static method"), member_name
            function = ours.__func__ if isinstance(ours, staticmethod) else ours
            assert same(parameters(function), member["parameters"]), member_name


def test_values() -> None:
    assert deepseek_recipe.IMAGE_SPECIAL_TOKEN_ID == 129264
    assert deepseek_recipe.__version__ == version("deepseek-recipe")
