"""The documentation is true: pages made from the code are up to date, and every example on them runs."""

import doctest
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


def test_pages_made_from_the_code_are_what_the_code_makes() -> None:
    where = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert where is not None
    assert where.loader is not None
    generate = importlib.util.module_from_spec(where)
    where.loader.exec_module(generate)
    page = (ROOT / "docs" / "run-folder.md").read_text("utf-8")
    assert page == generate.run_folder_page(), "run `python docs/generate.py`"
    checks = (ROOT / "docs" / "checks.md").read_text("utf-8")
    assert checks == generate.checks_page(), "run `python docs/generate.py`"
    schema = (ROOT / "docs" / "claim.schema.json").read_text("utf-8")
    assert schema == generate.claim_schema(), "run `python docs/generate.py`"


def test_every_field_of_the_format_is_documented() -> None:
    empty = [
        line for line in (ROOT / "docs" / "run-folder.md").read_text("utf-8").splitlines() if line.endswith("|  |")
    ]
    assert empty == []


@pytest.mark.parametrize("page", ["docs/python.md", "docs/adaptive.md"])
def test_python_examples(page: str) -> None:
    failures, tried = doctest.testfile(
        str(ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert tried > 10
    assert failures == 0


@pytest.mark.parametrize(
    ("page", "fewest"),
    [
        ("docs/command-line.md", 11),
        ("docs/report.md", 3),
        ("docs/claims.md", 9),
        ("docs/selftest.md", 2),
        ("docs/certificates.md", 4),
        ("docs/smoothing.md", 6),
    ],
)
def test_console_examples(page: str, fewest: int, tmp_path: Path) -> None:
    assert console_examples(page, tmp_path) >= fewest


def test_page_about_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python writes the files that its commands read."""
    monkeypatch.chdir(tmp_path)
    failures, tried = doctest.testfile(
        str(ROOT / "docs" / "imports.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert (failures, tried > 5) == (0, True)
    assert console_examples("docs/imports.md", tmp_path) > 3


def console_examples(page: str, folder: Path) -> int:
    """Run every command of a page; how many there are."""
    commands = 0
    for _language, attributes, body in FENCE.findall((ROOT / page).read_text("utf-8")):
        said = dict(entry.split("=") for entry in attributes.split())
        if "file" in said:
            (folder / said["file"]).write_text(body, "utf-8")
        for line in body.splitlines():
            if not line.startswith("$ "):
                continue
            done = brinell(line[2:], folder)
            assert done.returncode == int(said.get("exit", 0)), f"{line}\n{done.stdout}\n{done.stderr}"
            commands += 1
    return commands


def brinell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(line)
    assert program == "brinell"
    return subprocess.run(
        [sys.executable, "-m", "brinell", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_console_script_is_installed() -> None:
    assert shutil.which("brinell", path=str(Path(sys.executable).parent)) is not None


def test_readme_names_only_commands_that_exist() -> None:
    commands = set(re.findall(r"brinell (\w+)\b", fenced_readme()))
    assert commands <= {
        "run",
        "plan",
        "verify",
        "report",
        "models",
        "suites",
        "attacks",
        "compare",
        "import",
        "check",
        "doctor",
        "diagnose",
        "selftest",
        "certify",
    }


def fenced_readme() -> str:
    return "\n".join(body for _, _, body in FENCE.findall((ROOT / "README.md").read_text("utf-8")))
