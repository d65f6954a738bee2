"""Replay one seed and print its story (`python -m tests.model --seed 7`), or run many (`--count 1000`)."""

import argparse
import sys
import time

from tests.model.checker import check, story
from tests.model.simulation import Simulation


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    given = parser.parse_args()
    began, bad = time.perf_counter(), 0
    for seed in range(given.seed, given.seed + given.count):
        world = Simulation(seed)
        world.run()
        found = check(world)
        bad += bool(found)
        if found:
            sys.stdout.write(story(world, found) + "\n\n")
        elif given.count == 1:
            sys.stdout.write("\n".join(world.history.timeline()) + "\n")
    took = time.perf_counter() - began
    sys.stdout.write(f"{given.count} seeds, {bad} with violations, {given.count / took:.0f} seeds/s\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
