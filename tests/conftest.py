"""Shapes and types of every function of the package are checked while the tests run, and only then."""

from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("brinell", "shape_checks.checked")

torch.set_num_threads(1)

settings.register_profile("brinell", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("brinell")


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """For tests of many passes over what others run with the checks, which take three quarters of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
