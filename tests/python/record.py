"""Asks the reference for its public names and for the answers to `expressions.py`, and writes them to `data/`.

Run it with a Python that has the reference installed: `TOKENIZERS=DIR python tests/python/record.py`, where DIR holds
`v4/tokenizer.json` and `v41/tokenizer.json`.
"""

import inspect
import json
from typing import Any

import deepseek_recipe
from expressions import DATA, answer, topics


def parameters(function: Any) -> list[list[object]] | None:
    """Name, kind and default of each parameter; the default as text, or None if there is none."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return None
    return [
        [p.name, p.kind.name, None if p.default is p.empty else repr(p.default)] for p in signature.parameters.values()
    ]


def member(name: str, value: object) -> dict[str, object]:
    if isinstance(value, staticmethod):
        return {"kind": "static method", "parameters": parameters(value.__func__)}
    if inspect.isgetsetdescriptor(value):
        return {"kind": "property"}
    if callable(value):
        return {"kind": "method", "parameters": parameters(value)}
    return {"kind": "attribute", "value": repr(value)}


def described(value: Any) -> dict[str, object]:
    if not isinstance(value, type):
        return {"kind": "value", "type": type(value).__name__}
    members = {name: member(name, m) for name, m in vars(value).items() if not name.startswith("_")}
    return {
        "kind": "class",
        "bases": [base.__name__ for base in value.__mro__[1:]],
        "parameters": parameters(value) if "__new__" in vars(value) else None,
        "members": dict(sorted(members.items())),
    }


def public_api() -> dict[str, object]:
    return {name: described(getattr(deepseek_recipe, name)) for name in sorted(deepseek_recipe.__all__)}


if __name__ == "__main__":
    answers = {topic: [[e, answer(deepseek_recipe, e)] for e in lines] for topic, lines in topics().items()}
    for file, facts in (("public_api", public_api()), ("answers", answers)):
        (DATA / f"{file}.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
