"""Do hosts hear of the next signing key before it signs, and is there a way back while the one of
before is kept?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from gpuaas.kernel import clock
from gpuaas.kernel.models import Event
from nodeagent.host.helper.keys import read_control_keys
from placement.control_key_errors import (
    ControlKeyBelieved,
    ControlKeyKept,
    ControlKeyMissing,
    ControlKeyPrepared,
    ControlKeySigns,
    ControlKeysUnusable,
)
from placement.errors import ReasonMissing
from placement.node_tasks import control_public_key
from placement.services import control_keys, nodes
from placement.services.control_keys import OVERLAP, ControlKey, control_keys_list
from tests.builders import OPERATOR

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"reason": "spring", "actor": OPERATOR}


def said(*arguments: str) -> str:
    """What the command prints."""
    out = StringIO()
    call_command("control_keys", *arguments, stdout=out)
    return out.getvalue()


def kept() -> dict[str, str]:
    """The keys that are kept: fingerprint by what each does."""
    return {key.role: key.fingerprint for key in control_keys_list()}


@pytest.fixture
def at() -> Iterator[clock.FakeClock]:
    """A clock that moves when told."""
    fake = clock.FakeClock(datetime(2026, 5, 1, 12, tzinfo=UTC))
    with clock.use(fake):
        yield fake


def rotated() -> tuple[ControlKey, ControlKey]:
    """The key of before and the one that signs, after a switch."""
    [old] = control_keys_list()
    new = control_keys.control_key_prepare(**WHY)
    control_keys.control_key_switch(key=new.fingerprint, **WHY)
    return old, new


def test_a_host_is_told_who_it_is_and_which_keys_count(own_key: Path, tmp_path: Path) -> None:
    node = nodes.node_create(name="gpu-17", actor=OPERATOR)
    old, new = rotated()
    path = tmp_path / "control-keys.toml"
    path.write_text(said("--node", "gpu-17"))
    path.chmod(0o644)
    told = read_control_keys(path)
    assert told.node_id == str(node.pk)
    assert told.keys == (control_public_key(), old.public_key)
    assert control_public_key() == new.public_key, "without a restart"
    with pytest.raises(CommandError, match=r"no node 'gpu-18'.* gpuaas node create"):
        said("--node", "gpu-18")


def test_a_key_is_prepared_switched_to_and_the_one_of_before_retired(
    own_key: Path, at: clock.FakeClock
) -> None:
    old, new = rotated()
    assert kept() == {"signing": new.fingerprint, "former": old.fingerprint}
    with pytest.raises(ControlKeyBelieved) as refused:
        control_keys.control_key_retire(key=old.fingerprint, **WHY)
    assert refused.value.facts["until"] == (at.now() + OVERLAP).isoformat()
    at.advance(OVERLAP / timedelta(seconds=1) + 1)
    control_keys.control_key_retire(key=old.fingerprint, **WHY)
    assert kept() == {"signing": new.fingerprint}
    assert [path.name for path in own_key.parent.iterdir()] == [own_key.name]
    assert own_key.stat().st_mode & 0o777 == 0o600
    told = Event.objects.filter(kind__startswith="placement.control_key.").order_by("id")
    assert [(one.kind.rpartition(".")[2], one.facts["key"]) for one in told] == [
        ("prepared", new.fingerprint), ("switched", new.fingerprint), ("retired", old.fingerprint)
    ]  # fmt: skip
    assert {one.reason for one in told} == {"spring"}
    assert "PRIVATE" not in str([vars(one) for one in told])


def test_the_way_back_exchanges_both_and_leads_forth_again(
    own_key: Path, at: clock.FakeClock
) -> None:
    old, new = rotated()
    at.advance(7200)
    control_keys.control_key_back(key=old.fingerprint, **WHY)
    assert kept() == {"signing": old.fingerprint, "former": new.fingerprint}
    assert control_public_key() == old.public_key
    with pytest.raises(ControlKeyBelieved):
        control_keys.control_key_retire(key=new.fingerprint, **WHY)
    control_keys.control_key_back(key=new.fingerprint, **WHY)
    assert kept() == {"signing": new.fingerprint, "former": old.fingerprint}
    assert Event.objects.filter(kind="placement.control_key.taken_back").count() == 2


def test_a_stolen_key_is_retired_at_once(own_key: Path, at: clock.FakeClock) -> None:
    old, new = rotated()
    control_keys.control_key_retire(key=old.fingerprint, at_once=True, **WHY)
    assert kept() == {"signing": new.fingerprint}


def test_what_cannot_be_done_is_refused_and_changes_nothing(own_key: Path) -> None:
    [old] = control_keys_list()
    with pytest.raises(ControlKeyMissing):
        control_keys.control_key_switch(key="", **WHY)
    with pytest.raises(ControlKeyMissing):
        control_keys.control_key_back(key=old.fingerprint, **WHY)
    with pytest.raises(ControlKeySigns):
        control_keys.control_key_retire(key=old.fingerprint, **WHY)
    with pytest.raises(ReasonMissing):
        control_keys.control_key_prepare(reason=" ", actor=OPERATOR)
    assert kept() == {"signing": old.fingerprint}
    first = control_keys.control_key_prepare(**WHY)
    with pytest.raises(ControlKeyPrepared):
        control_keys.control_key_prepare(**WHY)
    with pytest.raises(ControlKeyMissing) as refused:
        control_keys.control_key_switch(key=old.fingerprint, **WHY)
    assert refused.value.facts["next"] == first.fingerprint
    control_keys.control_key_switch(key=first.fingerprint, **WHY)
    second = control_keys.control_key_prepare(**WHY)
    with pytest.raises(ControlKeyKept):
        control_keys.control_key_switch(key=second.fingerprint, **WHY)
    control_keys.control_key_retire(key=second.fingerprint, **WHY)
    assert kept() == {"signing": first.fingerprint, "former": old.fingerprint}


@pytest.mark.parametrize("ending", ["", ".next", ".former"])
@pytest.mark.parametrize("step", ["switch", "back", "retire"])
def test_a_look_during_a_step_shows_the_keys_of_before_or_after_it(
    own_key: Path, monkeypatch: pytest.MonkeyPatch, step: str, ending: str
) -> None:
    act: Callable[[], Any]
    if step == "switch":
        made = control_keys.control_key_prepare(**WHY)
        act = partial(control_keys.control_key_switch, key=made.fingerprint, **WHY)
    else:
        old, _new = rotated()
        if step == "back":
            act = partial(control_keys.control_key_back, key=old.fingerprint, **WHY)
        else:
            act = partial(control_keys.control_key_retire, key=old.fingerprint, at_once=True, **WHY)
    shown = meanwhile(monkeypatch, own_key.name + ending, act)
    assert shown == kept()


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], Any]) -> dict[str, str]:
    """What is shown where somebody does it just before the file of this name is first read."""
    read, done = Path.read_bytes, False

    def reading(path: Path) -> bytes:
        nonlocal done
        if path.name == name and not done:
            done = True
            act()
        return read(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", reading)
        return kept()


def test_files_that_cannot_be_read_are_told_of(own_key: Path) -> None:
    own_key.with_name(f"{own_key.name}.next").write_text("no key")
    with pytest.raises(ControlKeysUnusable, match="no key that can be read"):
        control_keys_list()
    own_key.unlink()
    with pytest.raises(ControlKeysUnusable, match="No such file"):
        control_keys.control_key_prepare(**WHY)
    assert not Event.objects.filter(kind__startswith="placement.control_key.").exists()


@pytest.mark.parametrize("broken_at", range(3))
def test_a_step_that_is_cut_off_leaves_a_key_that_signs_and_a_way_on(
    own_key: Path, monkeypatch: pytest.MonkeyPatch, broken_at: int
) -> None:
    old, new = rotated()
    for act, key in ((control_keys.control_key_back, old), (control_keys.control_key_back, new)):
        broken(monkeypatch, broken_at, partial(act, key=key.fingerprint, **WHY))
        assert control_public_key() in (old.public_key, new.public_key)
        assert set(kept().values()) == {old.fingerprint, new.fingerprint}, "hosts are told of both"
        if kept()["signing"] != key.fingerprint:
            act(key=key.fingerprint, **WHY)
        with pytest.raises(ControlKeySigns):
            control_keys.control_key_retire(key=key.fingerprint, **WHY)
        assert kept()["signing"] == key.fingerprint
    assert set(kept().values()) == {old.fingerprint, new.fingerprint}


def broken(monkeypatch: pytest.MonkeyPatch, after: int, act: Callable[[], Any]) -> None:
    """Do it with a machine that dies at the so-many-th change of a file."""
    done = 0

    def dies(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*given: Any, **more: Any) -> Any:
            nonlocal done
            done += 1
            if done > after:
                raise KeyboardInterrupt
            return real(*given, **more)

        return change

    with monkeypatch.context() as patched:
        for name in ("link", "replace"):
            patched.setattr(os, name, dies(getattr(os, name)))
        with pytest.raises(KeyboardInterrupt):
            act()


def test_the_command_does_the_same_as_whoever_operates(own_key: Path) -> None:
    [old] = control_keys_list()
    assert said() == f"signing  {old.fingerprint} {old.public_key}\n"
    new = said("prepare", "--reason", "spring").split()[1]
    with pytest.raises(CommandError, match="is next"):
        said("switch", "--key", old.fingerprint, "--reason", "spring")
    assert said("switch", "--key", new, "--reason", "spring").split()[:2] == ["signing", new]
    said("back", "--key", old.fingerprint, "--reason", "a host lacks it")
    assert kept() == {"signing": old.fingerprint, "former": new}
    said("retire", "--key", new, "--reason", "spring", "--at-once")
    assert kept() == {"signing": old.fingerprint}
