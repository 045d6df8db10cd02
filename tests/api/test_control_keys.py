"""Can an operator rotate the key that signs what hosts are told, over REST, and go back?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuaas.kernel.models import Event
from tests.api.client import Caller, operator_caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_key")]
PATH = "/api/v1/control-keys"


def roles(caller: Caller) -> dict[str, str]:
    """The fingerprint of each key by what it does."""
    answer = caller.call("GET", PATH)
    assert answer.status_code == 200
    return {key["role"]: key["fingerprint"] for key in answer.json()["items"]}


def act(caller: Caller, name: str, key: str, **more: Any) -> Any:
    """A step with a key."""
    return caller.call("POST", f"{PATH}/actions/{name}", {"key": key, "reason": "spring", **more})


def test_a_key_is_prepared_switched_to_taken_back_and_retired() -> None:
    caller = operator_caller()
    old = roles(caller)["signing"]
    made = caller.call("POST", PATH, {"reason": "spring"})
    assert made.status_code == 201
    new = made.json()["fingerprint"]
    assert roles(caller) == {"signing": old, "next": new}
    assert act(caller, "switch", new).json()["role"] == "signing"
    assert roles(caller) == {"signing": new, "former": old}
    assert act(caller, "back", old).status_code == 200
    assert roles(caller) == {"signing": old, "former": new}
    refused = act(caller, "retire", new)
    assert (refused.status_code, refused.json()["code"]) == (409, "control_key_believed")
    assert refused.json()["facts"]["until"]
    assert act(caller, "retire", new, at_once=True).status_code == 204
    assert roles(caller) == {"signing": old}
    told = Event.objects.filter(kind__startswith="placement.control_key.")
    assert told.count() == 4
    assert {event.actor["kind"] for event in told} == {"token"}
    assert "PRIVATE" not in str(made.content)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("switch", "control_key_missing"),
        ("back", "control_key_missing"),
        ("retire", "control_key_signs"),
    ],
)
def test_the_key_that_signs_can_only_be_exchanged(name: str, code: str) -> None:
    caller = operator_caller()
    refused = act(caller, name, roles(caller)["signing"])
    assert (refused.status_code, refused.json()["code"]) == (409, code)


def test_a_second_key_is_not_prepared_and_a_third_not_switched_to() -> None:
    caller = operator_caller()
    first = caller.call("POST", PATH, {"reason": "spring"}).json()["fingerprint"]
    refused = caller.call("POST", PATH, {"reason": "spring"})
    assert (refused.status_code, refused.json()["code"]) == (409, "control_key_prepared")
    assert act(caller, "switch", first).status_code == 200
    third = caller.call("POST", PATH, {"reason": "spring"}).json()["fingerprint"]
    refused = act(caller, "switch", third)
    assert (refused.status_code, refused.json()["code"]) == (409, "control_key_kept")


def test_whoever_is_no_administrator_reads_them_and_changes_nothing(own_key: Path) -> None:
    caller = operator_caller(role="operator")
    assert set(roles(caller)) == {"signing"}
    assert caller.call("POST", PATH, {"reason": "x"}).status_code == 403
    own_key.unlink()
    answer = caller.call("GET", PATH)
    assert (answer.status_code, answer.json()["code"]) == (503, "control_keys_unwritable")
