"""Does an operator see which key signs, let another take its place, and go back?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from placement.services.control_keys import control_keys_list
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser

pytestmark = pytest.mark.usefixtures("own_key")
PAGE = "/console/control-keys/"


def kept() -> dict[str, str]:
    """The keys that are kept: fingerprint by what each does."""
    return {key.role: key.fingerprint for key in control_keys_list()}


def act(browser: Browser, name: str, key: str, **more: str) -> Any:
    """Send the form of one step."""
    return browser.send(f"{PAGE}{name}/", {"key": key, "reason": "spring", **more})


def test_a_key_is_prepared_switched_to_taken_back_and_retired(fleet: Fleet) -> None:
    browser = fleet.browser()
    old = kept()["signing"]
    assert f"<code>{old}</code> signs what hosts" in browser.get(PAGE).content.decode()
    assert act(browser, "prepare", "").status_code == 302
    new = kept()["next"]
    html = browser.get(PAGE).content.decode()
    assert f"<code>{new}</code> is prepared" in html
    assert "Prepare the next key" not in html
    assert act(browser, "switch", new).status_code == 302
    assert kept() == {"signing": new, "former": old}
    refused = act(browser, "retire", old)
    assert refused.status_code == 400
    assert "hour" in refused.content.decode()
    assert act(browser, "back", old).status_code == 302
    assert kept() == {"signing": old, "former": new}
    assert act(browser, "retire", new, at_once="on").status_code == 302
    assert kept() == {"signing": old}
    assert "The key is removed." in browser.get(PAGE).content.decode()


def test_a_key_that_was_not_looked_at_is_not_switched_to(fleet: Fleet) -> None:
    browser = fleet.browser()
    act(browser, "prepare", "")
    before = kept()
    for key in ("0123456789abcdef", "%d", "100%", "x" * 5000):
        assert act(browser, "switch", key).status_code == 400
    assert browser.send(f"{PAGE}switch/", {"key": before["next"], "reason": ""}).status_code == 400
    assert browser.send(f"{PAGE}forge/", {"key": before["next"]}).status_code == 404
    assert kept() == before


def test_why_a_key_that_nobody_typed_is_refused_is_said_in_its_form(fleet: Fleet) -> None:
    browser = fleet.browser()
    act(browser, "prepare", "")
    html = form_of("switch", act(browser, "switch", "0123456789abcdef"))
    assert "No key of the fingerprint &#x27;0123456789abcdef&#x27; is next." in html
    assert "Look at the list of control keys" in html
    assert "(control_key_missing)" in html
    too_long = form_of("switch", act(browser, "switch", "x" * 65))
    assert "key: Ensure this value has at most 64 characters" in too_long


def form_of(name: str, answer: Any) -> str:
    """The opened form of one step, with what is said in it."""
    html: str = answer.content.decode()
    opened: str
    [opened] = re.findall(r'<details class="act" open>.*?</details>', html, re.S)
    assert f'action="{PAGE}{name}/"' in opened
    return opened


def test_files_that_cannot_be_read_are_said_on_the_page(fleet: Fleet, own_key: Path) -> None:
    browser = fleet.browser()
    own_key.unlink()
    answer = browser.get(PAGE)
    assert answer.status_code == 200
    assert "No key can be read." in answer.content.decode()
