"""The stub and the compiled module name the same things, with the same parameters."""

import ast
import inspect
import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import deepseek_recipe
from deepseek_recipe import _native

STUB = Path(deepseek_recipe.__file__).parent / "_native.pyi"
# What Python or PyO3 adds to a class by itself, and what pickling and copying need; a stub need not repeat it.
IMPLIED = set(dir(object)) | {
    "__module__",
    "__weakref__",
    "__dict__",
    "__slotnames__",
    "__int__",
    "__reduce__",
    "__copy__",
    "__deepcopy__",
    "_restore",
    "__match_args__",
    "__buffer__",
}


def stub_nodes() -> dict[str, ast.stmt]:
    """The public statements of the stub by name."""
    nodes: dict[str, ast.stmt] = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            nodes[node.target.id] = node
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            nodes[node.name] = node
    return {name: node for name, node in nodes.items() if not name.startswith("_") or name == "__version__"}


STUB_NODES = stub_nodes()


def classes(nodes: Iterable[ast.stmt], outer: str = "") -> dict[str, ast.ClassDef]:
    """The classes among statements, nested ones by their path."""
    found: dict[str, ast.ClassDef] = {}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            found[outer + node.name] = node
            found |= classes(node.body, f"{outer}{node.name}.")
    return found


CLASSES = classes(STUB_NODES.values())


def runtime_class(path: str) -> Any:
    return operator.attrgetter(path)(_native)


def default(node: ast.expr | None) -> object:
    return inspect.Parameter.empty if node is None else ast.literal_eval(node)


def stub_parameters(function: ast.FunctionDef) -> list[tuple[str, str, object]]:
    """Name, kind and default of each parameter but the first."""
    a = function.args
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + list(a.defaults)
    found = [(p.arg, "POSITIONAL_OR_KEYWORD", default(d)) for p, d in zip(plain, defaults, strict=True)]
    found = found if static else found[1:]
    found += [(a.vararg.arg, "VAR_POSITIONAL", inspect.Parameter.empty)] if a.vararg else []
    found += [(p.arg, "KEYWORD_ONLY", default(d)) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return found + ([(a.kwarg.arg, "VAR_KEYWORD", inspect.Parameter.empty)] if a.kwarg else [])


def runtime_parameters(function: Any) -> list[tuple[str, str, object]]:
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind.name, p.default) for p in parameters if p.name != "self"]


def stub_members(node: ast.ClassDef) -> dict[str, ast.stmt]:
    members: dict[str, ast.stmt] = {}
    for member in node.body:
        if isinstance(member, (ast.FunctionDef, ast.ClassDef)):
            members[member.name] = member
        elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            members[member.target.id] = member
    return members


def is_property(member: ast.stmt) -> bool:
    return isinstance(member, ast.FunctionDef) and any(
        isinstance(d, ast.Name) and d.id == "property" for d in member.decorator_list
    )


def test_same_names() -> None:
    runtime = {name for name in vars(_native) if not name.startswith("_")} | {"__version__"}
    assert set(STUB_NODES) == runtime


@pytest.mark.parametrize("name", CLASSES)
def test_class(name: str) -> None:
    cls, node = runtime_class(name), CLASSES[name]
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)] or ["object"]
    assert cls.__bases__[0].__name__ == bases[0]
    assert node.body and ast.get_docstring(node)

    members = stub_members(node)
    # The attributes of exceptions are set on the instances.
    on_instances = set(members) if issubclass(cls, Exception) else set()
    own = {member for member in vars(cls) if member not in IMPLIED}
    assert {member for member in members if member not in IMPLIED} - on_instances == own
    assert ("__new__" in members) == ("__new__" in vars(cls))
    for member_name, member in members.items():
        if member_name in on_instances or (member_name in IMPLIED and member_name != "__new__"):
            continue
        runtime = inspect.getattr_static(cls, member_name)
        if isinstance(member, ast.AnnAssign):
            is_class_value = ast.unparse(member.annotation).startswith("ClassVar")
            assert isinstance(runtime, cls) if is_class_value else inspect.isgetsetdescriptor(runtime)
        elif is_property(member):
            assert inspect.isgetsetdescriptor(runtime)
        elif isinstance(member, ast.FunctionDef):
            callee = cls if member_name == "__new__" else getattr(cls, member_name)
            assert runtime_parameters(callee) == stub_parameters(member)


@pytest.mark.parametrize("name", CLASSES)
def test_settable(name: str) -> None:
    """An annotated field of the stub can be set; a property cannot."""
    if name != "ParsingOptions":
        fields = [m for m in stub_members(CLASSES[name]).values() if isinstance(m, ast.AnnAssign)]
        assert all("ClassVar" in ast.unparse(m.annotation) for m in fields) or issubclass(
            runtime_class(name), Exception
        )
        return
    options = deepseek_recipe.ParsingOptions()
    for field in stub_members(CLASSES[name]):
        if field != "__new__":
            setattr(options, field, getattr(options, field))


def test_documented() -> None:
    """Every public member of the stub has a docstring, a plain field has one behind it."""
    missing: list[str] = []
    for name, node in CLASSES.items():
        for member, following in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("__"):
                if not ast.get_docstring(member):
                    missing.append(f"{name}.{member.name}")
            elif isinstance(member, ast.AnnAssign):
                if not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)):
                    missing.append(f"{name}.{ast.unparse(member.target)}")
    assert missing == []
