"""What holds for every test: loopback only, no silent skips, no leaked secret, no time limit of Hypothesis's own."""

from hypothesis import settings

pytest_plugins = ["pytester", "tests.canary", "tests.loopback", "tests.strict_run"]

# A busy machine is no finding; pytest-timeout bounds each test. The blob reproduces a failure seen elsewhere.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
