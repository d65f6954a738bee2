"""What people ask of the audit log over REST, where it cannot be done."""

from tests.unit.surfaces.door import Door


async def test_a_damaged_key_file_refuses_a_change_of_keys_as_what_it_is(door: Door) -> None:
    keys = door.running.office.log_keys
    before, file = keys.signer, door.running.office.paths.log_key
    kept = file.read_bytes()
    file.write_bytes(b"nonsense\n")
    answer = await door.call("POST", "/v1/audit/rotate-keys", key=door.home.person_key)
    file.write_bytes(kept)

    assert (answer.status, answer.document["code"]) == (503, "store_unavailable")
    assert keys.signer is before
    assert (await door.call("POST", "/v1/audit/rotate-keys", key=door.home.person_key)).status == 200
    assert keys.signer is not before
