"""Do hosts hear of the next signing key before it signs, in the form that their helpers read?"""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from gpuaas.embedded.keys import control_key_kept
from nodeagent.host.helper.keys import read_control_keys
from placement.node_tasks import control_public_key
from placement.services import nodes
from placement.services.control_keys import control_keys_list
from tests.builders import OPERATOR

pytestmark = pytest.mark.django_db


def said(*arguments: str) -> str:
    """What the command prints."""
    out = StringIO()
    call_command("control_keys", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def own_key(tmp_path: Path, settings: Any) -> Path:
    """A signing key that may be rotated without anybody else's noticing."""
    path = tmp_path / "control_ed25519.pem"
    control_key_kept(path)
    settings.CONFIG = replace(settings.CONFIG, control_key_path=path)
    return path


def test_a_host_is_told_who_it_is_and_which_key_signs(tmp_path: Path) -> None:
    node = nodes.node_create(name="gpu-17", actor=OPERATOR)
    path = tmp_path / "control-keys.toml"
    path.write_text(said("--node", "gpu-17"))
    path.chmod(0o644)
    told = read_control_keys(path)
    assert told.node_id == str(node.pk)
    assert told.keys[0] == control_public_key()
    with pytest.raises(CommandError, match="no node 'gpu-18'"):
        said("--node", "gpu-18")


def test_the_next_key_is_told_with_the_present_one_and_then_takes_its_place(own_key: Path) -> None:
    nodes.node_create(name="gpu-17", actor=OPERATOR)
    (present,) = control_keys_list()
    new = said("prepare").strip()
    assert said().split() == [present, new]
    assert said("--node", "gpu-17").count('="') == 2
    assert own_key.with_name("control_ed25519.pem.next").stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandError, match="prepared already"):
        said("prepare")
    assert said("switch").strip() == new
    assert control_keys_list() == (new,)
    assert own_key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandError, match="no next key is prepared"):
        said("switch")
    assert [path.name for path in own_key.parent.iterdir()] == [own_key.name]
