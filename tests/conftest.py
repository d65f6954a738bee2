"""What holds for every test: loopback only, no silent skips, no leaked secret, no time limit of Hypothesis's own."""

import pytest
from hypothesis import settings

pytest_plugins = ["pytester", "tests.canary", "tests.loopback", "tests.strict_run"]

# A busy machine is no finding; pytest-timeout bounds each test. The blob reproduces a failure seen elsewhere.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")

_LONGEST = "test_seeds.py"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that no core waits at the end for another's last; the rest is shuffled."""
    items.sort(key=lambda item: item.path.name != _LONGEST)
