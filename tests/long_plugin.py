"""Random tests: a few fixed tries in `make test`, many random ones in `make test-long`.

A test that takes the fixture `trials` asks it how often to try, and draws its random numbers from the seed in
it. In `make test` the seed never changes, and Hypothesis makes up the same examples in every run: a change
that breaks nothing fails nothing. `make test-long` runs these tests with another seed each time and names the
seed when one fails (`tests/long.py`). They carry the mark `random`, as do the tests of Hypothesis.
"""

import random
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "usual", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", settings.get_profile("usual"), derandomize=False, max_examples=2_000, print_blob=True
)


@dataclass(frozen=True)
class Trials:
    """How hard a random test tries."""

    long: bool
    seed: int

    def __call__(self, usual: int, *, long: int) -> int:
        """How often: so often in `make test`, or in `make test-long`."""
        return long if self.long else usual

    def chance(self, salt: object = "") -> random.Random:
        """Numbers that the seed repeats; with another salt, others."""
        return random.Random(f"{self.seed} {salt}")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("random tests")
    group.addoption("--long", action="store_true", help="try for long, and at random")
    group.addoption("--seed", type=int, default=1, help="what random tests begin with")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "random: draws random numbers; `make test-long` runs it")
    settings.load_profile("long" if config.getoption("--long") else "usual")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "trials" in getattr(item, "fixturenames", ()) or "hypothesis" in item.keywords:
            item.add_marker("random")


@pytest.fixture(scope="session")
def trials(pytestconfig: pytest.Config) -> Trials:
    return Trials(pytestconfig.getoption("--long"), pytestconfig.getoption("--seed"))
