"""Do the pages of sign-in, second factor, invitations and break-glass work, and are they clean?"""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.core import mail
from playwright.sync_api import Page
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tenants.models import User
from tests.browser.conftest import PASSWORD, SETTLED, keep_shot, sign_in
from tests.builders import TenantWorld, a_catalogue, a_tenant
from tests.identity.conftest import configure
from tests.identity.factors import code_of

OPERATOR = "op@example.test"
# Colours that are still on their way from one scheme to the other would be judged half-way.


@pytest.fixture
def acme(live_server: LiveServer, settings: Settings) -> TenantWorld:
    """A tenant, an operator who has to set a second factor up, and a configured provider."""
    configure(settings, "http://127.0.0.1:9")
    a_catalogue()
    User.objects.create_user(OPERATOR, PASSWORD, is_staff=True, operator_role="administrator")
    return a_tenant("acme")


class Looker:
    """Looks at pages as they stand: both schemes, a phone's width, assistive technology."""

    def __init__(self, page: Page) -> None:
        self.page, self.axe = page, Axe()
        self.found: list[str] = []
        page.on("console", lambda m: self.found.append(m.text) if m.type == "error" else None)

    def look(self, name: str) -> None:
        """Take notes of what is wrong with the page that is open."""
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            self.page.evaluate(SETTLED)
            keep_shot(self.page, f"{name}-{scheme}")
            for violation in self.axe.run(self.page).response["violations"]:
                where = [node["html"][:160] for node in violation["nodes"][:3]]
                self.found.append(f"{name} {scheme}: {violation['id']}: {where}")
        size = self.page.viewport_size
        self.page.set_viewport_size({"width": 320, "height": 640})
        width = self.page.evaluate("document.documentElement.scrollWidth")
        keep_shot(self.page, f"{name}-phone")
        if width > 320:
            self.found.append(f"{name}: {width} px wide on a phone")
        assert size is not None
        self.page.set_viewport_size(size)


def test_an_operator_sets_a_factor_up_and_looks_into_a_tenant(
    acme: TenantWorld, live_server: LiveServer, page: Page
) -> None:
    looker = Looker(page)
    page.goto(f"{live_server.url}/sign-in/?next=/console/")
    looker.look("sign-in-provider")
    sign_in(page, live_server.url, OPERATOR)
    page.wait_for_url("**/second-factor/set-up/**")
    page.locator("details summary").first.click()
    looker.look("factor-setup")
    secret = "".join(page.locator(".copy code").inner_text().split())
    page.get_by_label("Code").fill("000000")
    page.get_by_role("button", name="Set it up").click()
    page.get_by_text("The code is not right").wait_for()
    page.get_by_label("Code").fill(code_of(secret))
    page.get_by_role("button", name="Set it up").click()
    page.get_by_role("heading", name="Your recovery codes").wait_for()
    codes = re.findall(r"\d{8}", page.locator("pre").inner_text())
    assert len(codes) == 10
    looker.look("factor-codes")
    page.get_by_role("link", name="I have kept them").click()
    page.goto(f"{live_server.url}/security/")
    looker.look("security")
    page.goto(f"{live_server.url}/console/tenants/acme/")
    page.get_by_role("link", name="Look into its own view").click()
    looker.look("c-break-glass-open")
    page.get_by_role("textbox", name="Reason").fill("ticket 4711: the lease page is empty")
    page.get_by_role("button", name="Open the window").click()
    page.wait_for_url("**/t/acme/")
    page.get_by_text("You look at acme as an operator").wait_for()
    looker.look("looked-into")
    page.goto(f"{live_server.url}/console/break-glass/")
    looker.look("c-break-glass")
    page.get_by_role("button", name="Close").first.click()
    page.context.clear_cookies()
    sign_in(page, live_server.url, OPERATOR)
    looker.look("factor-code")
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Go on").click()
    page.wait_for_url("**/console/")
    # The browser itself notes the wrong code's answer.
    assert [note for note in looker.found if "400 (Bad Request)" not in note] == []


def test_an_owner_invites_and_makes_a_program_and_a_stranger_comes_in(
    acme: TenantWorld, live_server: LiveServer, page: Page
) -> None:
    looker = Looker(page)
    sign_in(page, live_server.url, acme.owner.email)
    page.goto(f"{live_server.url}/t/acme/access/")
    page.get_by_label("E-mail").fill("grace@example.test")
    page.get_by_role("button", name="Send the invitation").click()
    page.get_by_text("grace@example.test is invited by mail.").wait_for()
    page.get_by_label("Name", exact=True).fill("pipeline")
    page.get_by_role("button", name="Make it").click()
    page.get_by_text("pipeline is there.").wait_for()
    page.get_by_text("New token…").click()
    page.get_by_label("Token for").fill("runner")
    page.get_by_role("button", name="Make the token").click()
    page.get_by_text("The program's new token").wait_for()
    looker.look("access")
    link = re.search(r"/invitation/\S+", str(mail.outbox[-1].body))
    assert link is not None
    page.goto(f"{live_server.url}{link.group()}")
    looker.look("invitation-other")
    page.context.clear_cookies()
    page.goto(f"{live_server.url}{link.group()}")
    looker.look("invitation")
    page.get_by_label("Your name").fill("Grace")
    page.get_by_label("Password").fill("an even longer staple")
    page.get_by_role("button", name="Create the account and accept").click()
    page.wait_for_url("**/t/acme/")
    page.context.clear_cookies()
    page.goto(f"{live_server.url}{link.group()}")
    looker.look("invitation-gone")
    assert [note for note in looker.found if "404 (Not Found)" not in note] == []
