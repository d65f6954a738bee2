"""Whom the adapter believes: the traps of host keys, certificates, and keys that cannot be used."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from adapters.contract_ssh import SshCredential, SshPins, SshRoute, Stage
from adapters.http.refusals import Refused
from adapters.ssh.trust import Gatekeeper, identity_of, known_hosts
from tests.unit.adapters.conftest import CountingClock
from tests.unit.adapters.ssh_stand import Stand, credential_of, new_key, public_text

AUTHORITY = new_key()
STRANGER = new_key()


async def test_the_pinned_key_is_believed(stand: Stand) -> None:
    seen = await stand.attempt()

    assert seen.answered
    assert seen.host_key == stand.service.host_keys[0].get_fingerprint()


async def test_a_changed_key_is_shown_and_not_believed(stand: Stand) -> None:
    seen = await stand.attempt(replace(stand.direct, pins=SshPins((public_text(new_key()),))))

    assert (seen.stage, seen.nothing_left, seen.host_key_refused) == (Stage.CONNECTING, True, True)
    assert seen.host_key == stand.service.host_keys[0].get_fingerprint()
    assert "login" not in stand.stages


@pytest.mark.parametrize("name", ["127.0.0.1", "host", "other"])
async def test_no_file_and_no_old_line_for_the_address_widens_the_pins(
    stand: Stand, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".ssh"
    home.mkdir()
    key = public_text(stand.service.host_keys[0])
    lines = (f"127.0.0.1 {key}", f"host {key}", f"[127.0.0.1]:{stand.service.port} {key}")
    (home / "known_hosts").write_text("\n".join(lines))
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = await stand.attempt(replace(stand.direct, name=name, pins=SshPins((public_text(new_key()),))))

    assert seen.host_key_refused


@pytest.mark.parametrize(
    "pins", [SshPins(), SshPins(revoked=(public_text(STRANGER),)), SshPins(("no key",)), SshPins(("",))]
)
async def test_without_a_readable_pin_nobody_is_believed(stand: Stand, pins: SshPins) -> None:
    seen = await stand.attempt(replace(stand.direct, pins=pins))

    assert (seen.nothing_left, seen.error_class) == (True, "Refused")
    assert "login" not in stand.stages


async def test_a_revoked_key_is_not_believed_though_pinned(stand: Stand) -> None:
    pins = stand.pins
    seen = await stand.attempt(replace(stand.direct, pins=replace(pins, revoked=pins.keys)))

    assert seen.host_key_refused


def test_no_call_of_the_library_can_talk_us_into_a_key() -> None:
    gatekeeper = Gatekeeper()

    assert not gatekeeper.validate_host_public_key("host", "127.0.0.1", 22, STRANGER)
    assert not gatekeeper.validate_host_ca_key("host", "127.0.0.1", 22, STRANGER)


def _host_certificate(
    key: asyncssh.SSHKey, principals: list[str], *, by: asyncssh.SSHKey = AUTHORITY, before: str = "+1d"
) -> asyncssh.SSHCertificate:
    return by.generate_host_certificate(key, "host", principals=principals, valid_before=before)


def _authority(*revoked: asyncssh.SSHKey) -> SshPins:
    return SshPins(authorities=(public_text(AUTHORITY),), revoked=tuple(map(public_text, revoked)))


HOST = new_key()


@pytest.mark.parametrize(
    ("certificate", "pins", "believed"),
    [
        (_host_certificate(HOST, ["host"]), _authority(), True),
        (_host_certificate(HOST, ["other", "host"]), _authority(), True),
        (_host_certificate(HOST, ["other"]), _authority(), False),
        (_host_certificate(HOST, []), _authority(), False),
        (_host_certificate(HOST, ["host"], by=STRANGER), _authority(), False),
        (_host_certificate(HOST, ["host"]), _authority(AUTHORITY), False),
        (_host_certificate(HOST, ["host"]), _authority(HOST), False),
        (AUTHORITY.generate_user_certificate(HOST, "x", principals=["host"]), _authority(), False),
    ],
    ids=[
        "ours",
        "among others",
        "other name",
        "no name",
        "other authority",
        "revoked authority",
        "revoked key",
        "user",
    ],
)
async def test_a_host_certificate_counts_if_it_names_the_host_and_its_authority_is_pinned(
    tmp_path: Path, clock: CountingClock, certificate: asyncssh.SSHCertificate, pins: SshPins, believed: bool
) -> None:
    async with Stand(tmp_path, clock, host_keys=[HOST], host_certificates=[certificate]) as stand:
        seen = await stand.attempt(replace(stand.direct, pins=pins))

    assert seen.answered is believed
    assert seen.host_key == HOST.get_fingerprint()
    assert believed or (seen.nothing_left and seen.host_key_refused)


async def test_an_authority_is_no_host_key(stand: Stand) -> None:
    pins = SshPins(authorities=stand.pins.keys)
    seen = await stand.attempt(replace(stand.direct, pins=pins))

    assert not seen.answered
    assert seen.nothing_left


def _locked(key: asyncssh.SSHKey) -> SshCredential:
    return SshCredential(key.export_private_key("pkcs8-pem", passphrase="some phrase").decode())


def _cut_short(key: asyncssh.SSHKey) -> SshCredential:
    return SshCredential(key.export_private_key().decode()[:150])


def _foreign_certificate(key: asyncssh.SSHKey) -> SshCredential:
    return credential_of(key, AUTHORITY.generate_user_certificate(new_key(), "x"))


def _broken_certificate(key: asyncssh.SSHKey) -> SshCredential:
    return SshCredential(key.export_private_key().decode(), "ssh-ed25519-cert-v01@openssh.com AAAA")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_locked, "the private key is protected by a passphrase"),
        (_cut_short, "the private key cannot be read"),
        (lambda _key: SshCredential(""), "the private key cannot be read"),
        (lambda _key: SshCredential("/etc/hostname"), "the private key cannot be read"),
        (_foreign_certificate, "the certificate belongs to another private key"),
        (_broken_certificate, "the certificate of the private key cannot be read"),
    ],
)
async def test_a_key_that_cannot_be_used_is_refused_with_a_plain_sentence(
    stand: Stand, make: Callable[[asyncssh.SSHKey], SshCredential], sentence: str
) -> None:
    credential = make(stand.service.client_key)
    seen = await stand.attempt(replace(stand.direct, credential=credential))

    assert (seen.nothing_left, seen.summary) == (True, sentence)
    with pytest.raises(Refused):
        identity_of(credential)


def test_neither_key_nor_certificate_is_shown(stand: Stand) -> None:
    key = new_key()
    shown = repr(credential_of(key, AUTHORITY.generate_user_certificate(key, "x")))

    assert shown == "SshCredential()"


def test_pins_are_lists_that_the_library_takes_as_they_are() -> None:
    assert known_hosts(SshPins((public_text(HOST),), (public_text(AUTHORITY),), (public_text(STRANGER),))) == (
        [HOST.convert_to_public()],
        [AUTHORITY.convert_to_public()],
        [STRANGER.convert_to_public()],
    )


def _route_with(route: SshRoute, key: asyncssh.SSHKey, certificate: asyncssh.SSHCertificate) -> SshRoute:
    return replace(route, credential=credential_of(key, certificate))


async def test_a_certificate_goes_along_with_its_key(stand: Stand) -> None:
    key = stand.service.client_key
    certificate = AUTHORITY.generate_user_certificate(key, "x", principals=["fixture"])
    identity = identity_of(credential_of(key, certificate))

    assert isinstance(identity, tuple)
    # The fixture knows the bare key only: the certificate is offered first, refused, and then the key is taken.
    assert (await stand.attempt(_route_with(stand.direct, key, certificate))).answered
