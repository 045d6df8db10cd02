"""Does the protocol take what follows it, and name what does not?"""

from __future__ import annotations

import base64
import json
import string
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent import protocol
from nodeagent.protocol import (
    MAX_BODY_BYTES,
    MAX_DEPTH,
    REQUIRED_CLEANUP_STEPS,
    CompleteRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaseAnswer,
    ObservedReport,
    TaskEnvelope,
    TaskKind,
    VmProvisionParams,
    WireError,
    canonical_json,
    load_json,
    params_sha256,
    parse_params,
    request_signing_bytes,
    task_envelope,
    task_signing_bytes,
)
from nodeagent.signing import public_text, sign, verify
from placement.node_tasks import signature_holds

SLOT = {"slot_index": 0, "gpu_uuid": "GPU-1"}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtlZXAgdGhpcyBvdXQgb2YgdGhlIGxvZ3M="
PROVISION: dict[str, Any] = {
    "allocation_id": "a-1",
    "image": "ubuntu-24.04",
    "ssh_keys": [KEY],
    "hostname": "tenant",
    "slots": [SLOT],
}


def refusal(call: Any, *arguments: Any) -> tuple[str, str]:
    """Pointer and code of the refusal."""
    with pytest.raises(WireError) as error:
        call(*arguments)
    return error.value.pointer, error.value.code


def test_the_protocol_needs_nothing_but_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import nodeagent.protocol\n"
        "own = {m.partition('.')[0] for m in set(sys.modules) - before}\n"
        "print(sorted(own - set(sys.stdlib_module_names) - {'nodeagent'}))"
    )
    shown = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True)
    assert shown.stdout.strip() == "[]", shown.stderr


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"nan", "not_json"),
        (b'{"a": NaN}', "out_of_range"),
        (b'{"a": -Infinity}', "out_of_range"),
        (b'{"a": 1e999}', "out_of_range"),
        (b'{"a": 99999999999999999999}', "out_of_range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "out_of_range"),
        (b'{"a": 1, "a": 2}', "duplicate_key"),
        (b'{"a": "\\u0000"}', "bad_characters"),
        (b'{"a": "\\ud800"}', "bad_characters"),
        (b'{"' + b"k" * 200 + b'": 1}', "too_long"),
        (b"[" * 100_000, "too_deep"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "too_deep"),
        (b"[" + b"0," * 60_000 + b"0]", "too_many"),
        (b'"' + b"x" * MAX_BODY_BYTES + b'"', "too_large"),
    ],
)
def test_a_body_out_of_bounds_is_refused(body: bytes, code: str) -> None:
    assert refusal(load_json, body)[1] == code


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"slots": [{**SLOT, "cpuset": "0-"}]}, "/params/slots/0/cpuset", "bad_format"),
        ({"slots": [SLOT, {**SLOT, "slot_index": 1}]}, "/params/slots", "not_unique"),
        ({"slots": [{**SLOT, "slot_index": True}]}, "/params/slots/0/slot_index", "wrong_type"),
        ({"slots": [{**SLOT, "slot_index": 1.0}]}, "/params/slots/0/slot_index", "wrong_type"),
        ({"slots": [{**SLOT, "memory_bytes": 0}]}, "/params/slots/0/memory_bytes", "out_of_range"),
        ({"slots": [SLOT] * 300}, "/params/slots", "too_many"),
        ({"slots": [{**SLOT, "nic_mode": "own"}]}, "/params/slots/0/nic_mode", "unknown_value"),
        ({"slots": {}}, "/params/slots", "wrong_type"),
        ({"image": "x" * 200}, "/params/image", "too_long"),
        ({"image": None}, "/params/image", "wrong_type"),
        ({"hostname": ""}, "/params/hostname", "too_short"),
        ({"a/b~c": 1}, "/params/a~1b~0c", "unknown_field"),
        ({"ssh_keys": [KEY + "\x07"]}, "/params/ssh_keys/0", "bad_characters"),
    ],
)
def test_a_wrong_value_is_named_by_its_pointer(
    change: dict[str, Any], pointer: str, code: str
) -> None:
    assert refusal(parse_params, TaskKind.VM_PROVISION, {**PROVISION, **change}) == (pointer, code)


def test_a_missing_member_is_named() -> None:
    incomplete = {name: value for name, value in PROVISION.items() if name != "image"}
    found = refusal(parse_params, TaskKind.VM_PROVISION, incomplete)
    assert found == ("/params/image", "missing")


def test_a_refusal_never_repeats_the_value() -> None:
    with pytest.raises(WireError) as error:
        parse_params(TaskKind.VM_PROVISION, {**PROVISION, "image": "Secret Thing"})
    assert "Secret" not in str(error.value)


def test_the_token_of_a_join_is_not_shown_when_it_is_printed() -> None:
    request = JoinRequest("secret-token", "A" * 43 + "=", "boot-id-1", "host", "1", {})
    assert "secret-token" not in repr(request)


def test_answers_of_a_newer_control_plane_are_understood_but_requests_are_strict() -> None:
    answer = {"tasks": [], "next_poll_ms": 1, "server_time": 2, "news": True}
    assert LeaseAnswer.from_json(answer).next_poll_ms == 1
    beat = {"lease_epoch": 1, "step": "a", "percent": 2, "news": True}
    assert refusal(HeartbeatRequest.from_json, beat) == ("/news", "unknown_field")


def test_an_unknown_task_kind_is_refused() -> None:
    envelope = _envelope().to_json()
    envelope["kind"] = "slice.run_script"
    assert refusal(TaskEnvelope.from_json, envelope) == ("/kind", "unknown_value")


def test_the_bytes_of_a_request_are_fixed() -> None:
    expected = (
        "POST\n/agent/v1/tasks:lease\n7\n1800000000\n"
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )
    signed = request_signing_bytes("post", "/agent/v1/tasks:lease", 7, 1_800_000_000, b"{}")
    assert signed == expected.encode()
    by = request_signing_bytes("post", "/agent/v1/tasks:lease", 7, 1_800_000_000, b"{}", "0.3.0")
    assert by == f"{expected}\n0.3.0".encode()


def test_the_bytes_of_a_task_do_not_depend_on_the_order_of_members() -> None:
    envelope = _envelope().to_json()
    turned = dict(reversed(list(envelope.items())))
    assert task_signing_bytes(turned) == task_signing_bytes(_envelope())
    assert b" " not in task_signing_bytes(turned)


def test_a_signature_has_one_form_on_both_sides() -> None:
    key = Ed25519PrivateKey.generate()
    public, good = public_text(key), sign(key, request_signing_bytes("post", "/x", 7, 8, b"{}"))
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    same = [
        text
        for text in (f"{good[:85]}{last}==" for last in alphabet)
        if base64.b64decode(text) == base64.b64decode(good)
    ]
    assert len(same) == 16
    for text in [*same, good + "\n", good[:-1], good.rstrip("="), f"{good}====", ""]:
        by_server = signature_holds(
            public, text, method="POST", path="/x", sequence=7, timestamp=8, body=b"{}"
        )
        by_agent = verify(public, text, request_signing_bytes("post", "/x", 7, 8, b"{}"))
        assert by_server is by_agent is (text == good)


def test_floating_point_has_no_canonical_form() -> None:
    assert refusal(canonical_json, {"a": [1.5]}) == ("/a/0", "wrong_type")


def test_the_parameters_hash_is_of_what_is_sent() -> None:
    params = VmProvisionParams.from_json(PROVISION)
    assert params_sha256(params) == params_sha256(json.loads(json.dumps(params.to_json())))
    assert params_sha256(params) != params_sha256(PROVISION)


def test_every_release_kind_has_its_steps_and_bare_metal_wipes_the_system() -> None:
    slices = set(REQUIRED_CLEANUP_STEPS[TaskKind.VM_RELEASE])
    bare = set(REQUIRED_CLEANUP_STEPS[TaskKind.BAREMETAL_RELEASE])
    assert {step.value for step in bare - slices} == {"os_wiped"}
    assert slices < bare


def test_every_public_name_is_there() -> None:
    assert [name for name in protocol.__all__ if not hasattr(protocol, name)] == []
    assert {field.name for field in fields(JoinAnswer)} >= {"poll_ms", "control_public_key"}
    assert CompleteRequest(1, "boot-id-1", {}).evidence == ()
    assert ObservedReport.ignores_unknown is False


def _envelope() -> TaskEnvelope:
    return task_envelope(
        task_id="t",
        node_id="n",
        kind=TaskKind.VM_PROVISION,
        attempt=1,
        lease_epoch=1,
        boot_id=None,
        not_before=1,
        expires_at=2,
        nonce="n" * 16,
        params=VmProvisionParams.from_json(PROVISION),
    )
