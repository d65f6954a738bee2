"""What definitions of requests and commands share: a null that was written is a test, an absent field is none."""

from gateway.catalog.compile_parts import dump
from gateway.catalog.schema_hosts import ExitForm


def test_what_is_absent_stays_absent_and_a_written_null_stays() -> None:
    assert dump(ExitForm(path="a")) == {"path": "a"}
    assert dump(ExitForm.model_validate({"path": "a", "equals": None})) == {"path": "a", "equals": None}
    assert dump({"x": [ExitForm(exit=0)]}) == {"x": [{"exit": 0}]}
