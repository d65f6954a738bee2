"""What holds for every test: loopback only, no silent skips, no leaked secret, no time limit of Hypothesis's own."""

import os

import pytest
from hypothesis import settings

pytest_plugins = ["pytester", "tests.canary", "tests.loopback", "tests.strict_run"]

# A busy machine is no finding; pytest-timeout bounds each test. The blob reproduces a failure seen elsewhere.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")

_LONGEST = "test_seeds.py"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests spend a third of their time waiting, for a process or for a second."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that no core waits at the end for another's last; the rest is shuffled."""
    items.sort(key=lambda item: item.path.name != _LONGEST)
