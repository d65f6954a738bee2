"""What `gateway init` writes passes its own check, with nothing to remark."""

from gateway.catalog.config import read_settings
from gateway.catalog.lint import check
from gateway.catalog.questions import questions
from gateway.catalog.starter import CATALOG_FILE, STARTER_CATALOG, starter_settings


def test_starter_catalog_has_no_mistake_and_no_warning() -> None:
    checked = check({CATALOG_FILE: STARTER_CATALOG.encode()})
    assert [str(mistake) for mistake in checked.mistakes] == []
    assert checked.catalog is not None
    assert set(checked.catalog.actions) == {"environments.get", "deployments.create"}
    assert all(answer.answered for answer in questions(checked.catalog.actions["deployments.create"]))


def test_starter_settings_are_read_as_written() -> None:
    odd = 'age1"quoted: #{x}'
    text = starter_settings(origin="gw.example/audit/one", recipients=[odd], anchors=["/srv/anchor"])
    settings = read_settings(text.encode(), "/tmp/gateway.yaml", {})
    assert settings.audit.origin == "gw.example/audit/one"
    assert settings.audit.recipients == (odd,)
    assert settings.audit.anchors == ("/srv/anchor",)
    assert settings.server.host == "127.0.0.1"
    assert [rule.name for rule in settings.access] == ["everyone-reads", "agents-deploy"]


def test_the_line_that_lets_a_person_replace_an_operation_is_there_to_be_used() -> None:
    written = starter_settings(origin="gw.example/audit/one")
    settings = read_settings(written.replace("  # - {", "  - {").encode(), "/tmp/gateway.yaml", {})
    replacing = settings.access[-1]
    assert (replacing.caller, replacing.action, replacing.decision) == ("operator", "deployments.*", "allow")
