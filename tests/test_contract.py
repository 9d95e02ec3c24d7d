"""What every attack in the catalogue promises, whatever it does.

A new attack joins by standing in the catalogue; with a line in ``SETTINGS`` it is tried with other settings too.
"""

from dataclasses import FrozenInstanceError, fields

import pytest
import torch
from torch import Tensor, nn

from brinell.attacks.catalogue import ATTACKS, attack_from, identity, settings
from brinell.geometry import NORMS, Norm
from brinell.losses import margin_of
from brinell.queries import Attack, Cost
from brinell.threat import Threat
from models_with_known_radius import Linear, duel, random_linear
from trials import Counting, Trial, by_hand, trial

SETTINGS: dict[str, list[dict[str, object]]] = {
    "fgsm": [{}, {"loss": "dlr"}],
    "pgd": [
        {"steps": 4, "step_size": 0.5},
        {"steps": 3, "loss": "margin", "schedule": "cosine", "step_size": 0.5, "restarts": 2},
        {"steps": 3, "step_size": 0.7, "loss": "targeted-ce", "targets": 2},
    ],
    "apgd": [
        {"steps": 6},
        {"steps": 5, "loss": "dlr"},
        {"steps": 5, "loss": "targeted-dlr", "targets": 2},
    ],
    "fab": [{"steps": 4, "rivals": 2, "restarts": 2}],
    "fab-t": [{"steps": 4, "targets": 2, "restarts": 2}],
    "square": [{"queries": 120, "restarts": 2}, {"queries": 61, "p_init": 0.3, "horizon": 60}],
    "a3": [
        {"lean": "none", "steps": 3},
        {"start": 2, "steps": 3, "restarts": 2},
        {"lean": "adaptive", "start": 2, "steps": 3},
    ],
    "chance": [{"steps": 12, "restarts": 2}, {"steps": 10, "width": 2.0, "momentum": 0.3, "restarts": 1}],
    "apgd-l1": [
        {"steps": 9},
        {"steps": 6, "phases": 1, "loss": "margin"},
        {"steps": 7, "phases": 2, "loss": "targeted-dlr", "targets": 2},
    ],
}
NOT_RANDOM = {"fgsm"}
"""Attacks that never look at their random numbers."""

LEAVES_THE_BALL = {"fab", "fab-t", "apgd-l1"}
"""Attacks that look for an error outside the ball too, and come back: they never leave the box."""

FEATURES = 8
EPS: dict[Norm, float] = {"linf": 0.1, "l2": 0.3, "l1": 0.8}
CASES = [
    pytest.param(attack_from({"attack": name, **table}), norm, id=" ".join(map(str, [name, *table.values(), norm])))
    for name, kind in ATTACKS.items()
    for table in SETTINGS.get(name, [{}])
    for norm in kind.norms
]
every_attack = pytest.mark.parametrize(("attack", "norm"), CASES)


def tanh_net(classes: int, *, seed: int = 0, gain: float = 3.0) -> nn.Module:
    """A small smooth network in float64."""
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, classes)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(gain * torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 4)
    return net.eval()


def data(module: nn.Module, count: int, *, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Points of which an eighth of the values lie on a face of the box, with the classes that the model gives them."""
    x = torch.rand(count, 2, FEATURES // 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = (1.16 * x - 0.08).clamp(0, 1)
    with torch.no_grad():
        return x, module(x).argmax(1)


def unbreakable(classes: int) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A model with gradients that gives class 0 everywhere by a margin above 5, and rows for it."""
    linear = random_linear(classes, FEATURES, seed=2)
    bias = linear.bias.detach() - 5 - 2 * linear.weight.detach().abs().sum(dim=1).max()
    bias[0] = 2 * linear.weight.detach().abs().sum(dim=1).max()
    model = Linear(linear.weight.detach(), bias)
    return model, data(model, 10)


def threat_in(norm: Norm) -> Threat:
    return Threat(norm, EPS[norm])


def path_of(module: nn.Module, attack: Attack, norm: Norm, rows: tuple[Tensor, Tensor], *, seed: int = 0) -> Tensor:
    """Every point that the attack asks about, of shape (query, row, *feature)."""
    return torch.stack([query.points for query, _ in by_hand(module, threat_in(norm), attack, rows, seed=seed)])


def told(run: Trial) -> dict[int, tuple[object, ...]]:
    """All that was said of each row, with the points, in a form that compares exactly."""
    points = {row: tuple(claim.point.flatten().tolist()) for row, claim in run.claims.items()}
    records: dict[int, tuple[object, ...]] = {}
    for record in run.attempted:
        records[record.row] = (*records.get(record.row, ()), *record)
    return {row: (*record, points.get(row)) for row, record in records.items()}


def assert_close(run: Trial, other: Trial) -> None:
    """The same verdicts at the same pass, points and margins within 1e-12."""
    assert run.outcomes == other.outcomes
    assert run.fell == other.fell
    for row, claim in run.claims.items():
        assert torch.allclose(claim.point, other.claims[row].point, rtol=0, atol=1e-12)
        assert claim.prediction == other.claims[row].prediction
    of_row = {record.row: record for record in other.attempted}
    for record in {record.row: record for record in run.attempted}.values():
        same = of_row[record.row]
        assert (record.forwards, record.backwards) == (same.forwards, same.backwards)
        assert record.best_margin == pytest.approx(same.best_margin, abs=1e-11)


@every_attack
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_point_lies_in_the_threat_set(attack, norm, dtype):
    module = tanh_net(5)
    x, y = data(module, 12)
    threat = threat_in(norm)
    queries = [query for query, _ in by_hand(module.to(dtype), threat, attack.fit(5), (x.to(dtype), y))]
    assert queries
    for query in queries:
        assert query.points.dtype == dtype
        assert ((query.points >= 0) & (query.points <= 1)).all()
        if attack.name not in LEAVES_THE_BALL:
            assert threat.contains(x.to(dtype), query.points).all()


@every_attack
def test_it_beats_the_point_that_it_starts_from(attack, norm):
    """On a model of two classes each row's margin falls below that of the clean input and of the first point asked
    about, and at least half of what the best point of the set would gain is gained, or the row is misclassified."""
    model = duel(2, FEATURES, seed=3)
    x, y = data(model, 12)
    threat = threat_in(norm)
    said = by_hand(model, threat, attack.fit(2), (x, y))
    margins = torch.stack([margin_of(answer.logits, y) for _, answer in said])
    clean = margin_of(model(x), y)
    least = margins.amin(dim=0)
    assert (least < clean).all()
    assert (least < margins[0]).all()
    slope = model.weight.detach()[0] - model.weight.detach()[1]
    dual = {"linf": slope.abs().sum(), "l2": slope.norm(), "l1": slope.abs().max()}[norm]
    # far from the box where it would take part
    inner = 0.5 + 0.1 * (x - 0.5)
    margins = torch.stack(
        [margin_of(answer.logits, y) for _, answer in by_hand(model, threat, attack.fit(2), (inner, y))]
    )
    least = margins.amin(dim=0)
    gained = margin_of(model(inner), y) - least
    assert ((gained >= 0.5 * EPS[norm] * dual) | (least <= 0)).all()


@every_attack
@pytest.mark.parametrize("classes", [2, 6])
def test_it_costs_what_its_card_says(attack, norm, classes):
    """By the engine's counters and by counting what goes through the model."""
    inner, (x, y) = unbreakable(classes)
    counting = Counting(inner)
    fitted = attack.fit(classes)
    run = trial(counting, threat_in(norm), fitted, (x, y), batch_size=4)
    assert set(run.outcomes.values()) == {"stood"}
    cost = fitted.cost()
    assert cost.forwards > 0
    by_row = {row: Cost(0, 0) for row in range(10)}
    for record in run.attempted:
        by_row[record.row] += Cost(record.forwards, record.backwards)
    assert set(by_row.values()) == {cost}
    assert len(run.attempted) == 10 * fitted.attempts()
    total = cost.times(10)
    assert Cost(sum(step.forwards for step in run.steps), sum(step.backwards for step in run.steps)) == total
    # the clean scores that the trial began with are not the attack's
    assert Cost(counting.forwards - 10, counting.backwards) == total


@every_attack
@pytest.mark.usefixtures("without_shape_checks")
def test_a_row_alone_is_treated_as_among_others(attack, norm):
    module = tanh_net(4)
    x, y = data(module, 33)
    among = trial(module, threat_in(norm), attack.fit(4), (x, y), batch_size=33)
    assert 0 < len(among.fell) < 33
    fallen, standing = min(among.fell), min(set(range(33)) - among.fell)
    for row in (fallen, standing):
        alone = trial(module, threat_in(norm), attack.fit(4), (x, y), rows=[row])
        only = Trial(
            {row: claim for row, claim in among.claims.items() if row in alone.outcomes},
            [record for record in among.attempted if record.row == row],
            [],
        )
        assert_close(alone, only)


@every_attack
@pytest.mark.usefixtures("without_shape_checks")
def test_it_repeats_with_its_seed_and_not_with_another(attack, norm):
    module = tanh_net(4)
    rows = data(module, 16)
    first, again, other = (trial(module, threat_in(norm), attack.fit(4), rows, seed=seed) for seed in (5, 5, 6))
    assert told(first) == told(again)
    # Linf attacks may end in the same corner from different starts, but not everywhere
    assert (told(first) == told(other)) == (attack.name in NOT_RANDOM)
    if attack.name not in NOT_RANDOM:
        path, other_path = (path_of(module, attack.fit(4), norm, rows, seed=seed) for seed in (5, 6))
        assert (path != other_path).flatten(2).any(dim=2).any(dim=0).all()


@every_attack
def test_restarts_and_rows_get_random_numbers_of_their_own(attack, norm):
    """One row 16 times over, by its index 16 rows: all see different points; and so do the attempts at each."""
    if attack.name in NOT_RANDOM:
        pytest.skip("makes no use of random numbers")
    module, _ = unbreakable(4)
    x = torch.full((16, 2, FEATURES // 2), 0.5, dtype=torch.float64)
    y = torch.zeros(16, dtype=torch.int64)
    path = path_of(module, attack.fit(4), norm, (x, y)).flatten(2)
    assert len(path.transpose(0, 1).flatten(1).unique(dim=0)) == 16
    of_attempts = path[:, 0].reshape(attack.fit(4).attempts(), -1)
    assert len(of_attempts.unique(dim=0)) == len(of_attempts)


@every_attack
@pytest.mark.usefixtures("without_shape_checks")
def test_batches_and_order_change_nothing(attack, norm):
    module = tanh_net(4)
    rows = data(module, 16)
    threat, fitted = threat_in(norm), attack.fit(4)
    whole = trial(module, threat, fitted, rows, batch_size=64)
    assert 0 < len(whole.fell) < 16
    shuffled = torch.randperm(16, generator=torch.Generator().manual_seed(7)).tolist()
    for batch_size, order in ((1, None), (7, shuffled), (64, shuffled)):
        assert_close(whole, trial(module, threat, fitted, rows, batch_size=batch_size, rows=order))


@every_attack
def test_a_batch_of_one_and_of_none(attack, norm):
    module = tanh_net(3)
    x, y = data(module, 4)
    none = trial(module, threat_in(norm), attack.fit(3), (x, y), rows=[])
    assert (none.claims, none.attempted) == ({}, [])
    assert set(trial(module, threat_in(norm), attack.fit(3), (x, y), rows=[2]).outcomes) == {2}
    for query, _ in by_hand(module, threat_in(norm), attack.fit(3), (x[:0], y[:0])):
        assert query.points.shape == (0, 2, FEATURES // 2)


@every_attack
@pytest.mark.parametrize("classes", [2, 3, 4, 8])
def test_it_fits_few_classes(attack, norm, classes):
    module = tanh_net(classes)
    fitted = attack.fit(classes)
    assert fitted.fit(classes) == fitted
    assert type(fitted) is type(attack)
    run = trial(module, threat_in(norm), fitted, data(module, 12))
    assert set(run.outcomes.values()) <= {"fell", "stood"}
    assert len(run.outcomes) == 12
    assert all(record.best_margin is not None for record in run.attempted)


class Rescaled(nn.Module):
    """A model of inputs in [0, 1] for inputs in [-1, 1]."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner((x + 1) / 2)


@every_attack
def test_a_box_twice_as_wide_changes_nothing(attack, norm):
    """Inputs in [-1, 1] with twice the radius: the same verdicts, the same points under ``x -> 2 x - 1``."""
    module = tanh_net(4)
    x, y = data(module, 16)
    unit = trial(module, threat_in(norm), attack.fit(4), (x, y))
    double = trial(Rescaled(module), Threat(norm, 2 * EPS[norm], -1.0, 1.0), attack.fit(4), (2 * x - 1, y))
    assert unit.outcomes == double.outcomes
    assert len(unit.fell) > 0
    for row, claim in unit.claims.items():
        assert torch.allclose(double.claims[row].point, 2 * claim.point - 1, rtol=0, atol=1e-9)
    for row, margin in unit.best_margins.items():
        assert margin == pytest.approx(double.best_margins[row], abs=1e-8)


# --- what an attack is


@pytest.mark.parametrize("kind", ATTACKS.values(), ids=list(ATTACKS))
def test_an_attack_is_frozen_data_with_a_card(kind):
    attack = kind()
    assert ATTACKS[attack.name] is kind
    assert set(attack.norms) <= set(NORMS) and attack.norms
    assert attack.summary
    assert len(kind.__mro__) == 2  # no attack inherits from another
    assert kind() == attack and hash(kind()) == hash(attack)
    for field in fields(kind):
        with pytest.raises(FrozenInstanceError):
            setattr(attack, field.name, None)
    with pytest.raises(TypeError):
        kind(*[getattr(attack, field.name) for field in fields(kind)])


@pytest.mark.parametrize("kind", ATTACKS.values(), ids=list(ATTACKS))
def test_an_attack_survives_being_written_down(kind):
    for table in [{}, *SETTINGS.get(kind.name, [])]:
        attack = attack_from({"attack": kind.name, **table})
        assert attack_from(settings(attack)) == attack
        assert set(table.items()) <= set(settings(attack).items())


def test_attacks_that_differ_see_different_random_numbers():
    everything: list[Attack] = [
        attack_from({"attack": name, **table}) for name in ATTACKS for table in SETTINGS.get(name, [{}])
    ]
    assert len({identity(attack) for attack in everything}) == len(everything)


def test_costs_add_and_multiply():
    assert Cost(3, 2) + Cost(10, 0) == Cost(13, 2)
    assert Cost(3, 2).times(4) == Cost(12, 8)
    assert Cost(3, 2).times(0) == Cost(0, 0)
