"""The flow is one way: every import of the package stands in ARCHITECTURE.md's table of rooms."""

import ast
import re
from fnmatch import fnmatchcase
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import brinell

SOURCE = Path(brinell.__file__).parent
ARCHITECTURE = SOURCE.parents[1] / "ARCHITECTURE.md"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
"""Every module by its name within the package; the package itself is ``__init__``."""


def table() -> dict[str, set[str]]:
    """``| module | may import | …``: what each module, or each module that fits a pattern, may import."""
    rooms: dict[str, set[str]] = {}
    lines = ARCHITECTURE.read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"\|\s*module\s*\|\s*may import\s*\|", line))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        module, allowed, *_ = (cell.strip().replace("`", "") for cell in [*line.strip("| \n").split("|"), ""])
        assert module not in rooms, f"{module} stands twice in the table"
        rooms[module] = {name.strip() for name in allowed.split(",")} - {"", "-", "—"}
    return rooms


def room_of(module: str, rooms: dict[str, set[str]]) -> set[str]:
    """A module's own row, else that of the pattern it fits, else nothing."""
    if module in rooms:
        return rooms[module]
    return next((allowed for pattern, allowed in rooms.items() if fnmatchcase(module, pattern)), set())


def imports_of(path: Path) -> set[str]:
    """All modules of the package that a file imports, also within functions and for the type checker only."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "brinell"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            if node.module == "brinell" or (node.module or "").startswith("brinell."):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {_module_in(name.removeprefix("brinell").removeprefix(".")) for name in found}


def _module_in(name: str) -> str:
    """``attacks.apgd.APGD`` is in ``attacks.apgd``; a name of the package itself stays what it is."""
    parent = name.rpartition(".")[0]
    return name if name in FILES or not parent else parent


@pytest.mark.parametrize("module", FILES)
def test_every_import_is_in_the_table(module: str) -> None:
    allowed = room_of(module, table())
    strays = {name for name in imports_of(FILES[module]) if not any(fnmatchcase(name, pattern) for pattern in allowed)}
    assert not strays, f"{module} imports {sorted(strays)}, which ARCHITECTURE.md does not allow it"


def test_the_table_names_modules_that_exist() -> None:
    known = {*FILES, "__version__"}
    for module, allowed in table().items():
        for name in {module, *allowed}:
            assert any(fnmatchcase(existing, name) for existing in known), f"{name} is no module"


def test_every_module_has_a_room() -> None:
    rooms = table()
    missing = [m for m, path in FILES.items() if imports_of(path) and not any(fnmatchcase(m, room) for room in rooms)]
    assert not missing


def test_the_flow_is_one_way() -> None:
    """No module imports, by whatever detour, itself. (The package's own names stand for no module.)"""
    TopologicalSorter({module: imports_of(path) for module, path in FILES.items() if module != "__init__"}).prepare()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from brinell.engine import Engine", {"engine"}),
        ("def f():\n    from brinell import zoo, __version__", {"zoo", "__version__"}),
        ("import brinell.attacks.pgd\nimport torch", {"attacks.pgd"}),
        ("if TYPE_CHECKING:\n    from brinell.attacks import pgd", {"attacks.pgd"}),
    ],
)
def test_imports_are_found_wherever_they_stand(tmp_path: Path, text: str, found: set[str]) -> None:
    path = tmp_path / "module.py"
    path.write_text(text, "utf-8")
    assert imports_of(path) == found
