"""Random numbers: what a row sees depends on its key and on nothing else."""

import hashlib
import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from brinell.random import Noise, _mix, stream_key

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15

# The first outputs of SplitMix64 from the state 1234567, as its public reference gives them
REFERENCE_SEED = 1234567
REFERENCE = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


def mixed(z: int) -> int:
    """SplitMix64's output function in unbounded integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def absorbed(key: int, value: int) -> int:
    return mixed(((key ^ mixed((value + GAMMA) & MASK)) + GAMMA) & MASK)


def signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def noise(rows: list[int], *, seed: int = 1, stream: int = 2, attempt: int = 3) -> Noise:
    return Noise.of(seed=seed, stream=stream, attempt=attempt, rows=torch.tensor(rows, dtype=torch.int64))


def numbers(of: Noise, *, draw: int = 0, shape: tuple[int, ...] = (4,)) -> Tensor:
    return of.uniform(shape, draw=draw, dtype=torch.float64)


def test_the_reference_in_integers_gives_the_published_numbers():
    states = [REFERENCE_SEED + (i + 1) * GAMMA & MASK for i in range(len(REFERENCE))]
    assert [mixed(state) for state in states] == REFERENCE


def test_the_mixing_function_gives_the_published_numbers():
    states = [signed(REFERENCE_SEED + (i + 1) * GAMMA & MASK) for i in range(len(REFERENCE))]
    assert [out & MASK for out in _mix(torch.tensor(states, dtype=torch.int64)).tolist()] == REFERENCE


@pytest.mark.parametrize(
    ("seed", "stream", "attempt", "row", "draw"),
    [(0, 0, 0, 0, 0), (7, 2**62 + 1, 3, 10**6, 5), (2**63 - 1, 1, 2, 3, 4)],
)
def test_uniform_numbers_from_first_principles(seed, stream, attempt, row, draw):
    """The whole chain in unbounded integers: key by seed, stream, attempt, row; then draw; then number."""
    key = 0
    for value in (seed, stream, attempt, row, draw):
        key = absorbed(key, value)
    bits = [mixed((key + i * GAMMA) & MASK) for i in range(1, 7)]
    found = noise([row], seed=seed, stream=stream, attempt=attempt)
    assert numbers(found, draw=draw, shape=(2, 3)).flatten().tolist() == [(b >> 11) * 2.0**-53 for b in bits]
    single = found.uniform((2, 3), draw=draw, dtype=torch.float32)
    assert single.dtype == torch.float32
    assert single.flatten().tolist() == [(b >> 40) * 2.0**-24 for b in bits]


def test_order_and_company_of_rows_do_not_matter():
    together = numbers(noise([4, 0, 9, 2]))
    assert torch.equal(numbers(noise([2, 9, 0, 4])), together.flip(0))
    for place, row in enumerate([4, 0, 9, 2]):
        assert torch.equal(numbers(noise([row]))[0], together[place])
        assert torch.equal(
            noise([row]).normal((3,), draw=1, dtype=torch.float64),
            noise([4, 0, 9, 2]).normal((3,), draw=1, dtype=torch.float64)[place : place + 1],
        )


def test_asking_again_or_in_another_order_gives_the_same():
    one = noise([3])
    first = [numbers(one, draw=draw) for draw in (0, 1, 2)]
    again = [numbers(one, draw=draw) for draw in (2, 1, 0)][::-1]
    assert all(map(torch.equal, first, again))


def test_the_global_generator_is_neither_read_nor_moved():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    first = numbers(noise([1]))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(numbers(noise([1])), first)


@pytest.mark.parametrize("change", [{"seed": 8}, {"stream": 8}, {"attempt": 8}])
def test_another_key_gives_other_numbers(change):
    assert not (numbers(noise([0, 1])) == numbers(noise([0, 1], **change))).any()


def test_other_rows_and_draws_give_other_numbers():
    drawn = torch.cat([numbers(noise(list(range(50))), draw=draw) for draw in range(20)])
    assert drawn.unique().numel() == drawn.numel()


def test_parts_of_the_key_do_not_trade_places():
    """Seed 1, attempt 2 is not seed 2, attempt 1; nor does a sum of the two decide."""
    seen = {
        numbers(noise([row], seed=seed, attempt=attempt))[0, 0].item()
        for seed in range(5)
        for attempt in range(5)
        for row in range(5)
    }
    assert len(seen) == 125


def test_uniform_is_uniform():
    drawn = numbers(noise(list(range(200))), shape=(10, 10)).flatten()
    assert stats.kstest(drawn.numpy(), "uniform").pvalue > 1e-3
    assert drawn.min() >= 0 and drawn.max() < 1


def test_neighbouring_keys_are_unrelated():
    """Correlation between row i and row i + 1, draw 0 and draw 1, seed s and seed s + 1: within 4 / sqrt(n) of 0."""
    n = 10_000
    base = numbers(noise([0]), shape=(n,))[0]
    for other in (
        numbers(noise([1]), shape=(n,)),
        numbers(noise([0]), shape=(n,), draw=1),
        numbers(noise([0], seed=2), shape=(n,)),
    ):
        assert abs(torch.corrcoef(torch.stack([base, other[0]]))[0, 1]) < 4 / math.sqrt(n)
    # the first number of each row, over rows
    first = numbers(noise(list(range(n))), shape=(1,)).squeeze(1)
    assert stats.kstest(first.numpy(), "uniform").pvalue > 1e-3
    assert abs(torch.corrcoef(torch.stack([first[:-1], first[1:]]))[0, 1]) < 4 / math.sqrt(n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_is_normal(dtype):
    drawn = noise(list(range(200))).normal((10, 10), draw=3, dtype=dtype)
    assert drawn.dtype == dtype
    assert drawn.shape == (200, 10, 10)
    assert stats.kstest(drawn.flatten().double().numpy(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("bits", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_normal_is_finite_whatever_the_bits(bits):
    class Fixed(Noise):
        def _bits(self, shape, draw):
            return torch.full((len(self.keys), *shape), bits, dtype=torch.int64)

    assert Fixed(torch.zeros(1, dtype=torch.int64)).normal((1,), draw=0, dtype=torch.float64).isfinite().all()


def test_integers_are_uniform_and_in_range():
    drawn = noise(list(range(500))).integers(7, (20,), draw=0)
    assert drawn.dtype == torch.int64
    counts = torch.bincount(drawn.flatten(), minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3
    assert noise([1, 2]).integers(1, (5,), draw=0).unique().tolist() == [0]


def test_shapes_of_nothing():
    assert numbers(noise([]), shape=(3, 2)).shape == (0, 3, 2)
    assert numbers(noise([1, 2]), shape=()).shape == (2,)
    assert numbers(noise([1, 2]), shape=(0,)).shape == (2, 0)


def test_a_streams_key_is_the_head_of_a_hash():
    expected = int(hashlib.sha256(b"pgd").hexdigest()[:16], 16) >> 1
    assert stream_key("pgd") == expected
    assert 0 <= stream_key("apgd") < 2**63
    assert stream_key("apgd") != stream_key("pgd")
