"""The command: results on stdout, everything else on stderr, an exit code for every end."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tomli_w import dumps

from brinell import __version__, zoo
from brinell.attacks.catalogue import ATTACKS
from brinell.cli import main
from brinell.suites.suite import load_suite, suite_names
from small_runs import NET, ROWS, quiet_environment, small_options, small_run, suite_file

ESCAPE = "\x1b"
COMMANDS = ("run", "plan", "verify", "report", "models", "suites", "attacks", "selftest")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def brinell(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command in this process: exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


Call = Callable[..., tuple[int, str, str]]


def options_with(folder: Path, *changes: str) -> list[str]:
    """The options of a small run, some of them in another way."""
    options = small_options(suite_file(folder))
    for name in changes[::2]:
        if name in options:
            del options[options.index(name) : options.index(name) + 2]
    return [*options, *changes]


def in_process(*arguments: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "brinell", *arguments],
        cwd=cwd,
        env={**quiet_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# What there is


def test_help_names_every_command_and_every_exit_code(brinell: Call) -> None:
    code, out, err = brinell("--help")
    assert (code, err) == (0, "")
    assert all(re.search(rf"\b{command}\b", out) for command in COMMANDS)
    assert all(f"{number} " in out for number in (0, 2, 3, 4, 5, 130))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(brinell: Call, command: str) -> None:
    code, out, _ = brinell(command, "--help")
    assert code == 0
    assert len(out.splitlines()) >= 3


def test_help_of_run_names_every_option(brinell: Call) -> None:
    _, out, _ = brinell("run", "--help")
    for option in (
        *("model", "data", "rows", "norm", "eps", "low", "high", "suite", "outputs", "scale", "layout"),
        *("seed", "device", "budget", "batch-size", "out", "resume", "quiet", "json"),
    ):
        assert f"--{option}" in out


def test_version(brinell: Call) -> None:
    assert brinell("--version") == (0, f"{__version__}\n", "")


LIGHT = """
import sys
from brinell.cli import main
sys.argv = ["brinell"]
assert main({arguments}) == 0
heavy = {{"torch", "scipy", "pyarrow", "numpy", "jinja2", "PIL"}} & set(sys.modules)
assert not heavy & {{"torch", "scipy", "pyarrow"}}, heavy
"""


def test_help_does_without_torch(tmp_path: Path) -> None:
    code = "".join(LIGHT.format(arguments=[*command, "--help"]) for command in ([], ["run"], ["verify"]))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_models(brinell: Call) -> None:
    code, out, err = brinell("models")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 1 + len(zoo.names())
    for name, line in zip(zoo.names(), lines[1:], strict=True):
        card = zoo.card(name)
        assert line.startswith(f"builtin:{name} ")
        assert f"{card.clean_correct}/{card.clean_rows}" in line
        assert line.endswith(card.description)


def test_suites(brinell: Call) -> None:
    code, out, _ = brinell("suites")
    lines = out.splitlines()
    assert code == 0
    assert {line.split()[0] for line in lines[1:]} == set(suite_names())
    assert any(line.startswith("pgd v1 ") and "52 + 50" in line for line in lines)  # clean pass, 50 steps, a last look
    assert [line.split()[2].rstrip(",") for line in lines if line.startswith("autoattack ")] == ["linf", "l1"]


def test_suite_shown_is_a_suite_file(brinell: Call, tmp_path: Path) -> None:
    code, out, _ = brinell("suites", "--show", "apgd")
    assert code == 0
    (tmp_path / "mine.toml").write_text(out, "utf-8")
    assert load_suite(str(tmp_path / "mine.toml")) == load_suite("apgd")


def test_attacks(brinell: Call) -> None:
    code, out, _ = brinell("attacks")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(ATTACKS)
    assert all(kind.summary in out for kind in ATTACKS.values())


# Running


def test_run(brinell: Call, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    code, out, err = brinell("run", *small_options(suite_file(tmp_path)), "--out", folder)
    assert code == 0
    for words in ("clean accuracy", "robust accuracy", "attack success rate", "perturbation size", "54/60 = 90.0 %"):
        assert words in out
    assert f"brinell verify {folder}" in err
    assert len(err.splitlines()) == 1  # and no progress where nobody watches
    assert "record is in" not in out
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == {
        *("manifest.json", "result.json", "spec.toml", "ledger.sqlite", "rows.parquet", "attempts.parquet"),
        *("witnesses.npy", "originals.npy", "clean_logits.npy", "traces.parquet"),
    }


def test_json_and_nothing_else_on_stdout(brinell: Call, tmp_path: Path) -> None:
    code, out, _ = brinell("run", *small_options(suite_file(tmp_path)), "--out", tmp_path / "mine", "--json")
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "mine" / "result.json").read_text("utf-8"))


def test_quiet_says_the_result_only(brinell: Call, tmp_path: Path) -> None:
    code, out, err = brinell("run", *small_options(suite_file(tmp_path)), "--out", tmp_path / "mine", "--quiet")
    assert (code, err) == (0, "")
    assert "robust accuracy" in out


def test_spec_file_with_options_over_it(brinell: Call, tmp_path: Path) -> None:
    table = {
        "model": NET,
        "data": {"source": ROWS, "rows": "0:30"},
        "threat": {"norm": "linf", "eps": "0.06"},
        "suite": str(suite_file(tmp_path)),
    }
    (tmp_path / "evaluation.toml").write_text(dumps(table), "utf-8")
    options = ("--eps", "8/255", "--rows", "0:10", "--batch-size", "32", "--out", tmp_path / "mine", "--json")
    code, out, _ = brinell("run", tmp_path / "evaluation.toml", *options)
    assert code == 0
    said = json.loads(out)
    assert said["threat"]["eps_text"] == "8/255"
    assert "eps 8/255" in said["claim"]
    assert said["rows"] == 10
    assert 'eps = "8/255"' in (tmp_path / "mine" / "spec.toml").read_text("utf-8")


def test_spec_of_a_run_runs_again_to_the_same(brinell: Call, run: Path, tmp_path: Path) -> None:
    code, out, _ = brinell("run", run / "spec.toml", "--out", tmp_path / "again", "--json")
    assert code == 0
    before = json.loads((run / "result.json").read_text("utf-8"))
    assert json.loads(out) == before


def test_folder_named_after_the_run(brinell: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("run", *small_options(suite_file(tmp_path)), "--rows", "0:8", "--quiet")
    assert brinell(*options)[0] == 0
    assert brinell(*options)[0] == 0
    made = [path.name for path in (tmp_path / "runs").iterdir()]
    assert len(made) == 2
    assert all("small_net" in name and "linf-0.06" in name and "small" in name for name in made)


def test_plan_attacks_nothing(brinell: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    suite = suite_file(tmp_path)
    before = set(tmp_path.iterdir())
    code, out, err = brinell("plan", *small_options(suite), "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    # a row that stands: 2 x (5 + 1) + 2 x (8 + 1) forwards, 2 x 5 + 2 x 8 backwards; and one clean pass
    assert (said["most"]["forwards"], said["most"]["backwards"]) == (60 * (12 + 18) + 60, 60 * 26)
    assert said["least"]["forwards"] == 3 * 60
    assert said["most"]["seconds"] > 0
    assert (said["rows"], said["classes"], said["batch_size"]) == (60, 4, 16)
    assert [attack["attempts"] for attack in said["attacks"]] == [2, 2]
    assert "at most 1,860 forward and 1,560 backward passes" in brinell("plan", *small_options(suite))[1]
    assert set(tmp_path.iterdir()) == before


def test_plan_covers_what_the_run_then_takes(brinell: Call, run: Path, tmp_path: Path) -> None:
    said = json.loads(brinell("plan", run / "spec.toml", "--json")[1])
    cost = json.loads((run / "result.json").read_text("utf-8"))["cost"]
    assert cost["of_which"]["attack_forwards"] + cost["of_which"]["clean_forwards"] <= said["most"]["forwards"]
    assert cost["backwards"] <= said["most"]["backwards"]


@pytest.mark.parametrize(("budget", "passes"), [("10/row", 10 * 40), ("150", 150), ("2h", None), ("1G", None)])
def test_plan_says_where_the_budget_ends_it(brinell: Call, budget: str, passes: int | None) -> None:
    """PGD-50 on 40 rows takes 1 + 51 + 50 passes a row at most."""
    said = json.loads(brinell("plan", "--rows", "0:40", "--suite", "pgd", "--budget", budget, "--json")[1])
    assert (said["cut_at"] or {}).get("passes") == passes


def test_plan_refuses_what_a_run_would(brinell: Call, tmp_path: Path) -> None:
    code, out, err = brinell("plan", *options_with(tmp_path, "--eps", "8"))
    assert (code, out) == (2, "")
    assert "8/255" in err


@pytest.mark.parametrize("format", ["text", "json", "markdown", "latex"])
def test_report_from_the_folder_alone(brinell: Call, run: Path, format: str) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    code, out, err = brinell("report", run, "--format", format)
    assert (code, err) == (0, "")
    assert "robust" in out
    if format == "json":
        assert json.loads(out) == json.loads((run / "result.json").read_text("utf-8"))
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


# What is wrong is said on stderr, and nothing on stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--eps", "eight"], ["eps", "'eight'", "8/255"]),
        (["--eps", "-0.1"], ["eps", "-0.1"]),
        (["--norm", "l3"], ["norm", "'l3'", "linf or l2 or l1"]),
        (["--low", "1", "--high", "0"], ["bounds", "low 1.0, high 0.0"]),
        (["--rows", "0:100"], ["rows '0:100'", "60 rows"]),
        (["--rows", "[/]"], ["rows '[/]'"]),
        (["--suite", "no-such-suite"], ["suite", "'no-such-suite'", "apgd-t"]),
        (["--suite", "[bold]x[/bold].toml"], ["[bold]x[/bold].toml", "does not exist"]),
        (["--model", "absent.py:load"], ["model", "no file absent.py"]),
        (["--model", "small_net"], ["not of the form file.py:name"]),
        (["--model", "small_net:CLASSES"], ["not a function"]),
        (["--model", "small_net:rows"], ["tuple", "a torch.nn.Module"]),
        (["--model", "builtin:resnet"], ["'resnet'", "fmnist-at"]),
        (["--data", "absent.npz"], ["no such file"]),
        (["--data", "builtin:cifar"], ["builtin:fmnist"]),
        (["--device", "abacus"], ["device", "'abacus'"]),
        (["--seed", "-1"], ["seed", "greater than or equal to 0"]),
        (["--seed", "one"], ["one"]),
        (["--batch-size", "0"], ["batch_size", "greater than 0"]),
        (["--budget", "much"], ["budget", "'much'", "500/row", "30min"]),
        (["--budget", "0"], ["budget", "'0'"]),
        (["--budget", "60"], ["budget", "60 passes for 60 rows", "more than the 60 passes on the clean rows"]),
        (["--scale", "0"], ["scale"]),
        (["--outputs", "scores"], ["scores"]),
        (["--outputs", "probabilities"], ["values that are not probabilities"]),
        (["--layout", "channels-first"], ["channels-first"]),
        (["--colour", "red"], ["--colour"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_bad_input(brinell: Call, tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    """Each kind ends with code 2, before anything is written, and the message names what to change."""
    code, out, err = brinell("run", *options_with(tmp_path, *arguments), "--out", tmp_path / "mine")
    assert (code, out) == (2, "")
    for word in words:
        assert word in " ".join(err.split()), err
    assert not (tmp_path / "mine").exists()


def test_message_has_subject_got_expected_remedy(brinell: Call, tmp_path: Path) -> None:
    _, _, err = brinell("run", *options_with(tmp_path, "--eps", "8"), "--out", tmp_path / "mine")
    labels = [line.split()[0] for line in err.splitlines()]
    assert labels == ["eps", "got", "expected", "remedy"]


def test_unknown_command(brinell: Call) -> None:
    code, out, err = brinell("attack")
    assert (code, out) == (2, "")
    assert "attack" in err


def test_output_folder_that_is_taken(brinell: Call, run: Path, tmp_path: Path) -> None:
    options = ("run", *small_options(suite_file(tmp_path)))
    code, out, err = brinell(*options, "--out", run)
    assert (code, out) == (2, "")
    assert "--resume" in err
    code, _, err = brinell(*options, "--out", tmp_path)
    assert code == 2
    assert "not empty" in err
    code, _, err = brinell(*options, "--out", tmp_path / "small.toml")
    assert code == 2
    assert "small.toml" in err


@pytest.mark.parametrize("command", [["report"], ["verify"], ["run", "--resume"]])
def test_folder_of_no_run(brinell: Call, tmp_path: Path, command: list[str]) -> None:
    code, out, err = brinell(*command, tmp_path)
    assert (code, out) == (2, "")
    assert "no manifest.json" in " ".join(err.split())


def test_format_of_another_version(brinell: Call, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 999}), "utf-8")
    code, _, err = brinell("report", tmp_path)
    assert code == 2
    assert "format 999" in err


FAILING = """
import small_net
from torch import nn

class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls = small_net.load(), 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 40:
            raise OSError("[/] the accelerator fell off")
        return self.inner(x)

def load():
    return Failing().eval()
"""


def test_model_that_fails(brinell: Call, tmp_path: Path) -> None:
    """Exit code 5, what it said, and what had been found."""
    (tmp_path / "failing.py").write_text(FAILING, "utf-8")
    options = options_with(tmp_path, "--model", f"{tmp_path}/failing.py:load")
    code, out, err = brinell("run", *options, "--out", tmp_path / "mine")
    assert (code, out) == (5, "")
    assert re.search(r"OSError on all of \d+ rows: \[/\] the accelerator fell off", " ".join(err.split()))
    assert brinell("report", tmp_path / "mine")[0] == 3


# Terminals, pipes and names that look like markup


def test_result_and_messages_part_ways(tmp_path: Path) -> None:
    """A process of its own, its streams apart; NO_COLOR, and no colour in a pipe anyway."""
    options = small_options(suite_file(tmp_path))
    done = in_process("run", *options, "--out", "mine", cwd=tmp_path, NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert ESCAPE not in done.stdout + done.stderr
    assert "robust accuracy" in done.stdout
    assert "brinell verify mine" in done.stderr
    assert "brinell verify" not in done.stdout


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color(no_color: bool, run: Path, monkeypatch: pytest.MonkeyPatch, brinell: Call) -> None:
    """On a terminal there is colour, unless it is not wanted."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    _, out, _ = brinell("report", run)
    coloured = re.search(ESCAPE + r"\[[0-9;]*3[0-7]", out) is not None or f"{ESCAPE}[38" in out
    assert not (no_color and coloured)
    assert ESCAPE in out


def test_reader_that_goes_away_is_no_error(run: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "brinell", "report", str(run), "--format", "json"],
        env=quiet_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    assert writer.wait(60) == 0
    assert writer.stderr.read() == ""
    writer.stderr.close()


def test_names_that_look_like_markup(brinell: Call, tmp_path: Path) -> None:
    """rich reads ``[v2]`` and ``[/]`` as markup where a text is not said to be none."""
    odd = tmp_path / "nets [v2]" / "[/]"
    odd.mkdir(parents=True)
    (odd / "odd.py").write_text(Path(NET.removesuffix(":load")).read_text("utf-8"), "utf-8")
    options = options_with(tmp_path, "--model", f"{odd}/odd.py:load", "--data", f"{odd}/odd.py:rows")
    code, out, err = brinell("run", *options, "--out", odd / "mine")
    assert code == 0
    assert f"{odd}/odd.py:load" in out
    assert str(odd / "mine") in err
    code, out, _ = brinell("report", odd / "mine")
    assert code == 0
    assert f"{odd}/odd.py:rows" in out
    code, out, err = brinell("verify", odd / "mine", "--model", f"{odd}/absent.py:load")
    assert code == 0
    assert "[v2]/[/]/absent.py" in " ".join(out.split()).replace(" ", "").replace("nets[v2]", "nets [v2]")
    code, _, err = brinell("run", *options, "--out", odd / "mine")
    assert code == 2
    assert "nets [v2]/[/]" in err


def test_claim_is_one_line_in_a_pipe(brinell: Call, run: Path) -> None:
    """So that it can be found and quoted."""
    claim = json.loads((run / "result.json").read_text("utf-8"))["claim"]
    assert claim in brinell("report", run)[1].splitlines()


def test_builtin_run(brinell: Call, tmp_path: Path) -> None:
    """The first thing that anybody types, on a few rows and with the quickest suite."""
    options = ("--rows", "0:50", "--suite", "fgsm", "--batch-size", "50", "--json")
    code, out, _ = brinell("run", *options, "--out", tmp_path / "mine")
    assert code == 0
    said = json.loads(out)
    assert said["model"]["source"] == "builtin:fmnist-at"
    assert said["data"]["source"] == "builtin:fmnist"
    x, y = zoo.load_rows()
    import torch

    with torch.no_grad():
        right = (zoo.load_model("fmnist-at")(torch.tensor(x[:50])).argmax(1).numpy() == y[:50]).sum()
    assert said["clean_accuracy"]["count"] == right
    assert brinell("verify", tmp_path / "mine")[0] == 0


def test_numpy_data_and_pixels(brinell: Call, tmp_path: Path) -> None:
    x, y = zoo.load_rows()
    pixels = (x[:20] * 255).round().astype(np.uint8)
    np.savez(tmp_path / "rows.npz", images=pixels, labels=y[:20])
    options = ("run", "--model", "builtin:fmnist-standard", "--data", tmp_path / "rows.npz", "--suite", "fgsm")
    code, _, err = brinell(*options, "--out", tmp_path / "refused")
    assert code == 2
    assert "divide them by 255" in " ".join(err.split())
    rest: list[Any] = ["--scale", "255", "--batch-size", "20", "--out", tmp_path / "mine", "--json"]
    code, out, _ = brinell(*options, *rest)
    assert code == 0
    assert "divided by 255" in "".join(json.loads(out)["notes"])
