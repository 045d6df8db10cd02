"""Can a rule that is wrong, or dear, do no harm from the console's form; and is it told by name?"""

from __future__ import annotations

import html
import time

import pytest

from admission.errors import PolicyForbids
from admission.models import PolicyRule
from tests.console.conftest import Fleet
from tests.console.test_policies import PAGE, RULE, written

BOUND_S = 5.0
NESTED = "".join(f"[1, 2, 3, 4, 5, 6, 7, 8].all({x}, " for x in "abcdef") + "a > 0" + ")" * 6


def active_rule(fleet: Fleet) -> None:
    """No more than one slot at once, since this page was used."""
    rule, browser = written(fleet), fleet.browser()
    browser.send(f"{PAGE}{rule.pk}/dry-run/")
    browser.send(f"{PAGE}{rule.pk}/activate/", {"reason": "agreed"})
    rule.refresh_from_db()
    assert rule.state == "active"


@pytest.mark.parametrize(
    ("field", "value", "label"),
    [
        ("expression", "request.slotz > 1", "Forbidden when (CEL)"),
        ("expression", "request.slots >> 1", "Forbidden when (CEL)"),
        ("expression", NESTED, "Forbidden when (CEL)"),
        ("expression", "request.slots > 1 || " * 400 + "true", "Forbidden when (CEL)"),
        ("expression", "", "Forbidden when (CEL)"),
        ("message", "", "What the tenant is told"),
        ("tests", "[]", "Its own tests (JSON)"),
    ],
    ids=["typo", "syntax", "endless", "too long", "no rule", "no message", "no tests"],
)
def test_a_wrong_rule_is_named_with_its_field_and_the_others_go_on(
    fleet: Fleet, field: str, value: str, label: str
) -> None:
    active_rule(fleet)
    for do in ("keep", "check"):
        began = time.monotonic()
        form = {**RULE, "name": "the-broken-one", field: value, "do": do}
        answer = fleet.browser().send(PAGE, form)
        assert time.monotonic() - began < BOUND_S
        page = html.unescape(answer.content.decode())
        assert answer.status_code == 400
        assert f'id="id_{field}_error"' in page
        assert f"The rule the-broken-one was not kept ({label})" in page
    assert not PolicyRule.objects.filter(name="the-broken-one").exists()
    assert PolicyRule.objects.get(state="active").name == RULE["name"]
    with pytest.raises(PolicyForbids) as refused:
        fleet.acme.order(slots=2)
    assert refused.value.facts["rule"] == RULE["name"]
    assert fleet.acme.order(slots=1).allocation is not None


def test_what_happened_to_a_rule_is_told_in_words(fleet: Fleet) -> None:
    active_rule(fleet)
    rule = PolicyRule.objects.get()
    page = fleet.browser().get(f"{PAGE}{rule.pk}/").content.decode()
    changed = page.partition("Who changed what")[2]
    assert "slowest of its tests" in changed
    assert "decisions asked again" in changed
    assert "agreed" in changed
    for noun in ("worst", "looked at", "newly refused", "rule version", "worst us"):
        assert noun not in changed
