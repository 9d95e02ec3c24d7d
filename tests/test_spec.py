"""What a run is to do, as data: written down, it reads back as the same; what is wrong in it is said, all at once."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tomli_w import dumps

from brinell.errors import BadInput
from brinell.spec import Declared, Spec, read_spec, spec_beside, spec_from, written
from brinell.suites.suite import load_suite, suite_names
from brinell.zoo import card
from small_runs import TABLE

FULL: dict[str, Any] = {
    "model": {"source": "net.py:load", "outputs": "probabilities", "device": "cpu"},
    "data": {"source": "rows.npz", "rows": "3,17,5:9", "scale": 255.0, "layout": "channels-last"},
    "threat": {"norm": "l2", "eps": "8/255", "low": -1.0, "high": 1.0},
    "suite": "pgd",
    "seed": 7,
    "budget": "500/row",
    "batch_size": 64,
    "surrogate": {"source": "other.py:load", "outputs": "logits", "device": "cpu"},
    "certify": {"method": "crown", "seconds": 5.0},
    "declared": {
        "data": "CIFAR-10",
        "clean_accuracy": 0.9,
        "preprocessing": "none",
        "training_data": "its training set",
        "training_attack": "none",
    },
}
SHORT: dict[str, Any] = {"model": "net.py:load", "data": "rows.npz", "threat": {"norm": "linf", "eps": 0.25}}


def file_of(folder: Path, table: dict[str, Any]) -> Path:
    path = folder / "evaluation.toml"
    path.write_text(dumps(table), "utf-8")
    return path


@pytest.mark.parametrize("table", [FULL, SHORT])
def test_written_spec_reads_back_as_the_same(tmp_path: Path, table: dict[str, Any]) -> None:
    spec = read_spec(file_of(tmp_path, table), {})
    (tmp_path / "spec.toml").write_text(written(spec), "utf-8")
    assert read_spec(tmp_path / "spec.toml", {}) == spec
    assert written(read_spec(tmp_path / "spec.toml", {})) == written(spec)


def test_built_in_models_are_declared_as_they_were_made() -> None:
    """From the model's card; the data set's name only where the rows are the built-in ones."""
    own = read_spec(None, {}).declared
    assert (own.data, own.training_attack) == ("Fashion-MNIST", "PGD-7, Linf 0.1")
    assert read_spec(None, {"model": {"source": "builtin:fmnist-standard"}}).declared.training_attack == "none"
    elsewhere = read_spec(None, {"data": {"source": "rows.npz"}, "declared": {"training_attack": "mine"}}).declared
    assert (elsewhere.data, elsewhere.training_attack) == (None, "mine")
    assert (
        read_spec(
            None, {"model": {"source": "net.py:load"}, **{k: v for k, v in SHORT.items() if k != "model"}}
        ).declared
        == Declared()
    )


def test_file_says_what_it_says(tmp_path: Path) -> None:
    spec = read_spec(file_of(tmp_path, FULL), {})
    assert spec.model_dump() == FULL


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("8/255", "8/255"),
        ("8 / 255", "8/255"),
        (8 / 255, "8/255"),
        (0.1, "0.1"),
        ("0.03", "0.03"),
        (0, "0"),
        ("1e-3", "1e-3"),
        ("2.5/255", "2.5/255"),
    ],
)
def test_eps_is_kept_as_written(tmp_path: Path, given: Any, kept: str) -> None:
    table = {**SHORT, "threat": {"norm": "linf", "eps": given}}
    spec = read_spec(file_of(tmp_path, table), {})
    assert spec.threat.eps == kept
    assert tomllib.loads(written(spec))["threat"]["eps"] == kept
    assert spec_from(tomllib.loads(written(spec)), "again").threat.eps == kept


def test_options_override_the_file(tmp_path: Path) -> None:
    path = file_of(tmp_path, FULL)
    overrides = {
        "model": {"outputs": "logits"},
        "data": {},
        "threat": {"eps": "0.5"},
        "suite": "apgd",
        "seed": 0,
        "budget": "30min",
        "batch_size": None,
    }
    spec = read_spec(path, overrides)
    assert (spec.model.source, spec.model.outputs) == ("net.py:load", "logits")
    assert spec.data.model_dump() == FULL["data"]
    assert (spec.threat.norm, spec.threat.eps) == ("l2", "0.5")
    assert (spec.suite, spec.seed, spec.budget, spec.batch_size) == ("apgd", 0, "30min", 64)


def test_options_go_beside_a_short_form(tmp_path: Path) -> None:
    spec = read_spec(file_of(tmp_path, SHORT), {"model": {"device": "cpu"}, "data": {"rows": "0:5"}})
    assert (spec.model.source, spec.data.source, spec.data.rows) == ("net.py:load", "rows.npz", "0:5")


def test_nothing_said_is_the_builtin_robust_model() -> None:
    spec = read_spec(None, {})
    assert (spec.model.source, spec.data.source, spec.suite) == ("builtin:fmnist-at", "builtin:fmnist", "brinell")
    assert (spec.threat.norm, spec.threat.eps) == ("linf", "0.1")
    assert (spec.data.rows, spec.seed, spec.budget) == ("all", 0, None)


def test_builtin_model_brings_its_rows_and_its_threat() -> None:
    name = "fmnist-standard"
    spec = read_spec(None, {"model": {"source": f"builtin:{name}"}, "threat": {"eps": "4/255"}})
    assert (spec.threat.norm, spec.threat.eps) == (card(name).norm, "4/255")
    assert spec.data.source == "builtin:fmnist"
    other = read_spec(None, {"model": {"source": f"builtin:{name}"}, "data": {"source": "rows.npz"}})
    assert other.data.source == "rows.npz"


def test_radius_on_the_card_is_not_lent_to_another_norm() -> None:
    with pytest.raises(BadInput, match=r"threat\.eps"):
        read_spec(None, {"threat": {"norm": "l2"}})


def test_model_of_ones_own_brings_nothing() -> None:
    with pytest.raises(BadInput, match="--data"):
        read_spec(None, {"model": {"source": "net.py:load"}, "threat": {"norm": "linf", "eps": "0.1"}})
    with pytest.raises(BadInput, match="--norm"):
        read_spec(None, {"model": {"source": "net.py:load"}, "data": {"source": "rows.npz"}})


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    table = {
        "model": {"source": "net.py:load", "outputs": "scores", "weights": "w.pt"},
        "data": {"source": "rows.npz", "scale": 0},
        "threat": {"norm": "linf", "eps": "0.1", "low": "dark"},
        "seed": -1,
        "budget": "much",
        "batch_size": 0,
        "attack": "pgd",
    }
    with pytest.raises(BadInput) as error:
        read_spec(file_of(tmp_path, table), {})
    for fault in (
        "model.outputs",
        "model.weights",
        "data.scale",
        "threat.low",
        "seed",
        "budget",
        "batch_size",
        "attack",
    ):
        assert f"{fault}: " in error.value.got, fault
    assert "evaluation.toml" in error.value.subject


def test_unreadable_eps_is_one_fault_among_the_others(tmp_path: Path) -> None:
    table = {**SHORT, "threat": {"norm": "linf", "eps": "eight"}, "seed": -1}
    with pytest.raises(BadInput) as error:
        read_spec(file_of(tmp_path, table), {})
    assert "eps" in str(error.value)
    assert "'eight'" in str(error.value)
    assert "seed" in str(error.value)


@pytest.mark.parametrize("key", ["model", "data", "threat", "suite"])
@pytest.mark.parametrize("value", [5, ["builtin:fmnist-at"], True])
def test_value_of_the_wrong_kind_is_a_fault_of_the_file(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(BadInput, match=key):
        read_spec(file_of(tmp_path, {**SHORT, key: value}), {"model": {}, "data": {}, "threat": {}})


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_spec(tmp_path / "absent.toml", {})
    with pytest.raises(BadInput, match="directory"):
        read_spec(tmp_path, {})
    (tmp_path / "broken.toml").write_text("model = ", "utf-8")
    with pytest.raises(BadInput, match="Invalid value"):
        read_spec(tmp_path / "broken.toml", {})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not text"):
        read_spec(tmp_path / "binary.toml", {})


def test_spec_of_a_run_with_model_and_data_moved() -> None:
    recorded = Spec.model_validate(FULL)
    assert spec_beside(recorded, "run", model=None, data=None) == recorded
    moved = spec_beside(recorded, "run", model="elsewhere.py:load", data=None)
    assert (moved.model.source, moved.model.outputs, moved.data) == (
        "elsewhere.py:load",
        "probabilities",
        recorded.data,
    )
    with pytest.raises(BadInput, match="in Python"):
        spec_beside(None, "run", model=None, data=None)


@pytest.mark.parametrize("name", suite_names())
def test_suite_that_ships_reads_back_from_its_own_table(tmp_path: Path, name: str) -> None:
    suite = load_suite(name)
    path = tmp_path / "mine.toml"
    path.write_text(dumps(suite.table()), "utf-8")
    assert load_suite(str(path)) == suite
    assert load_suite(str(path)).digest() == suite.digest()


def test_suite_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(dumps(TABLE), "utf-8")
    suite = load_suite(str(path))
    assert suite.name == "small"
    # pgd: 2 restarts of 5 + 1 forwards and 5 backwards; apgd: 2 targets of 8 + 1 and 8
    assert suite.cost() == (2 * 6 + 2 * 9, 2 * 5 + 2 * 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attacks": []}, "at least one"),
        ({"attacks": [{"attack": "no-such-attack"}]}, "'no-such-attack'"),
        ({"attacks": [{"attack": "pgd", "step": 10}]}, "the setting 'step'"),
        ({"attacks": [{"attack": "pgd", "steps": 0}]}, "a whole number above 0"),
        ({"attacks": [{"attack": "pgd", "steps": 1.5}]}, "a whole number above 0"),
        ({"attacks": [{"attack": "pgd", "loss": "hinge"}]}, "'hinge'"),
        ({"attacks": [{"attack": "pgd", "loss": ["ce"]}]}, "loss"),
        ({"attacks": [{"attack": ["pgd"]}]}, "attack"),
        ({"attacks": ["pgd"]}, "attacks"),
        ({"attacks": "pgd"}, "at least one"),
        ({"version": 1}, "version"),
        ({"author": "me"}, "unknown keys"),
    ],
)
def test_suite_file_that_is_none(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(dumps({**TABLE, **change}), "utf-8")
    with pytest.raises(BadInput, match=message):
        load_suite(str(path))


def test_suite_file_that_cannot_be_read(tmp_path: Path) -> None:
    for name, content, message in (
        ("absent.toml", None, "does not exist"),
        ("broken.toml", b"name = ", "not TOML"),
        ("binary.toml", b"\xff\xfe\x00", "binary.toml"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=message):
            load_suite(str(tmp_path / name))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(BadInput, match=r"folder\.toml"):
        load_suite(str(tmp_path / "folder.toml"))


def test_same_attack_twice_is_refused() -> None:
    """Its second run would see the random numbers of the first."""
    suite = load_suite("pgd")
    twice = type(suite)(suite.name, suite.version, suite.summary, suite.attacks * 2)
    with pytest.raises(BadInput, match="twice"):
        twice.check("linf")


def test_norm_that_an_attack_is_not_defined_for_is_refused() -> None:
    with pytest.raises(BadInput, match="l1 for apgd"):
        load_suite("apgd").check("l1")


def test_unknown_suite_names_those_there_are() -> None:
    with pytest.raises(BadInput) as error:
        load_suite("no-such-suite")
    assert all(name in error.value.expected for name in [*suite_names(), "pgd", "fgsm"])
