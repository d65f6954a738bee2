"""Left to chance, rare meetings would need many seeds: most seeds go through the lists of the alphabet in turn."""

from typing import TYPE_CHECKING

from tests.model.faults import SENDS, lawful
from tests.model.host_faults import HOST_FENCES, HOST_LOOKS, HOST_SENDS, host_lawful
from tests.model.kinds import KINDS
from tests.model.points import FENCE_POINTS, POINTS

if TYPE_CHECKING:
    from tests.model.simulation import Simulation

REFUSED_MAX = 40
"""More connections than an operation tries before its time to start is over."""
ACCEPTING = ("accepted", "accepted_blind", "accepted_settled")


def direct(world: "Simulation") -> None:
    """Prepare what this seed is about, if it is about anything."""
    turn, way = divmod(world.seed, 6)
    names = list(SENDS)
    if way == 0:
        fate = names[turn % len(names)]
        world.kinds = tuple(name for name, kind in KINDS.items() if lawful(kind, SENDS[fate], "send"))
        world.faults.queue.append(fate)
    elif way == 1:
        world.kinds = ("fence", "fence_busy")
        world.faults.queue.append(("lost", "late", "later", "lost, reset", "latest")[turn % 5])
        world.faults.fences.append(names[turn % len(names)])
        if turn % 4 == 0:
            world.trap = (FENCE_POINTS[turn // 4 % len(FENCE_POINTS)], False)
    elif way == 2:
        world.loop.call_later(world.random.random() * 20.0, world.set_trap, POINTS[turn % len(POINTS)])
    elif way == 3 and turn % 2 == 0:
        world.kinds = ACCEPTING
        world.faults.queue.append(
            ("cut behind the head", "work fails", "work fails, cut", "handle vanishes")[turn // 2 % 4]
        )
    elif way == 3:
        _rarely(world, turn // 2)
    elif way == 4 and turn % 2 == 0:
        _to_hosts(world, turn // 2)
    elif way == 4 and turn % 8 == 1:
        put_back(world)


def _to_hosts(world: "Simulation", turn: int) -> None:
    """A session that ends in each way, and now and then a fence or a look that does so too."""
    turn, way = divmod(turn, 2)
    names = list(HOST_SENDS)
    if way == 0:
        fate = HOST_SENDS[names[turn % len(names)]]
        world.kinds = tuple(name for name, kind in KINDS.items() if host_lawful(kind, fate, "send"))
        world.faults.queue.extend([fate.name, names[(turn + len(names) // 2) % len(names)]])
        return
    world.kinds = ("runner", "runner_locked", "runner_told")
    if turn % 8 == 7:
        world.faults.queue.append("host: slow to begin")
        world.urge = "cancel"
        return
    world.faults.queue.append(("ssh: asked, lost", "ssh: held, silent", "ssh: held a little")[turn % 3])
    fences, looks = list(HOST_FENCES), list(HOST_LOOKS)
    world.faults.fences.extend([fences[turn % len(fences)], fences[(turn + len(fences) // 2) % len(fences)]])
    if turn % 3 == 0:
        world.kinds = ("runner", "runner_told", "told")
        world.faults.looks.append(looks[turn // 3 % len(looks)])
    if turn % 4 == 0:
        world.trap = (FENCE_POINTS[turn // 4 % len(FENCE_POINTS)], False)


def put_back(world: "Simulation") -> None:
    """A host that is restored from a snapshot while the gateway wonders about a lost session. It goes on meanwhile.

    What it saw end there is known to a process only while that lives.
    """
    plan = world.plan
    plan.agents, plan.deaths, plan.stops, plan.steps, plan.full = 3, 0, False, False, False
    world.rearm()
    world.blackout = False
    world.faults.level = 0.0
    world.kinds = ("runner",)
    world.faults.queue.extend(["fine", "ssh: accepted, delivered, cut", "ssh: asked, delivered"])
    world.faults.looks.append("put back")
    world.loop.call_later(world.random.random() * 2.0, world.host("runner").keep_snapshot)


def _rarely(world: "Simulation", turn: int) -> None:
    """What comes about only if several things meet."""
    if turn % 4 == 0:
        world.faults.queue.extend(["refused"] * REFUSED_MAX)
    elif turn % 4 == 1:
        world.kinds = ACCEPTING
        world.trap = "head.before_commit", False
    else:
        # A file is put in another's place only by a process that finds what an earlier one left unsynced.
        world.plan.deaths, world.plan.every = max(world.plan.deaths, 2), 6
        world.rearm()
        world.trap = "disk.rename", turn % 4 == 2
