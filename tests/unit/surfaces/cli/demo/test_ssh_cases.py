"""The demo's commands end in every way, and their faults are those of the kit."""

from fixtures.proxy.toxics import TOXICS
from fixtures.ssh.faults import FAULTS
from gateway.surfaces.cli.demo.ssh_cases import HONEST, HOST_BY_NAME, HOST_CASES, HOSTS


def test_names_tell_the_cases_apart_and_one_host_meets_one_fault_at_a_time() -> None:
    assert len(HOST_BY_NAME) == len(HOST_CASES)
    troubled = [case.host for case in HOST_CASES if (case.fault or case.toxic) and case.stage == "together"]
    assert len(troubled) == len(set(troubled))
    assert HONEST not in troubled
    assert set(HOSTS) == {HONEST, *troubled}


def test_faults_are_those_of_the_kit() -> None:
    assert {case.fault for case in HOST_CASES if case.fault} <= set(FAULTS)
    assert {case.toxic for case in HOST_CASES if case.toxic} <= set(TOXICS)


def test_a_session_that_dies_ends_both_ways() -> None:
    assert (HOST_BY_NAME["ran"].ends, HOST_BY_NAME["never-ran"].ends) == ("success", "error")
    assert {case.stage for case in HOST_CASES} == {"together", "in_flight", "afterwards"}
