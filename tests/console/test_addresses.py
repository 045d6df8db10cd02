"""Where does an address lead that only a form is sent to, when somebody looks at it?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from uuid import UUID

import pytest
from django.urls import URLPattern, URLResolver, resolve

from gpuaas.console.urls import urlpatterns as console
from gpuaas.portal.urls import tenant_pages
from gpuaas.ui.pages import page_above
from tests.console.conftest import Fleet

SOME = {
    "uuid": str(UUID(int=7)),
    "slug": "some",
    "str": "some",
    "path": "some",
}


def forms_alone(patterns: Sequence[URLPattern | URLResolver], under: str) -> Iterator[str]:
    """An address of each view that takes forms and shows nothing."""
    for pattern in patterns:
        if not isinstance(pattern, URLPattern):
            continue
        view = getattr(pattern.callback, "view_class", None)
        if not hasattr(view, "get"):
            route = str(pattern.pattern)
            yield under + re.sub(r"<(\w+):\w+>", lambda found: SOME[found[1]], route)


FORMS = [
    *forms_alone(console, "/console/"),
    *forms_alone(tenant_pages, "/t/some/"),
]


@pytest.mark.parametrize("path", FORMS)
def test_a_form_s_address_has_a_page_above_it(path: str) -> None:
    above = page_above(path)
    assert path.startswith(above)
    assert above.count("/") > 1
    assert hasattr(resolve(above).func.view_class, "get")  # type: ignore[attr-defined]  # a class's view has it


def test_who_signs_in_again_over_a_form_sees_its_page_and_that_nothing_was_sent(
    fleet: Fleet,
) -> None:
    browser = fleet.browser()
    for form in ("drain", "join-token", f"slots/{UUID(int=7)}/override"):
        answer = browser.get(f"/console/nodes/host-1/{form}/")
        assert (answer.status_code, answer.headers["Location"]) == (302, "/console/nodes/host-1/")
    assert "Nothing was sent." in browser.get("/console/nodes/host-1/").content.decode()


def test_other_methods_are_refused_as_before(fleet: Fleet) -> None:
    assert fleet.browser().trace("/console/nodes/host-1/drain/").status_code == 405
