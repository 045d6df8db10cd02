"""Are names in every script and amounts at the edges kept, or refused beside their field?

Every text and every number of every form that links of the portal and the console lead to is
tried, beside a form that is otherwise filled as a person would. What is sent is taken back.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern
from prometheus_client.parser import text_string_to_metric_families

from admission.models import Workload
from gpuaas.console import urls as console
from gpuaas.kernel.models import Event
from gpuaas.portal import urls as portal
from placement.models import Node
from placement.services import nodes
from tenants.models import User
from tenants.services import cohorts
from tests.builders import OPERATOR
from tests.portal.conftest import Browser
from tests.security.form_walk import Field, Form, Page, walked
from tests.security.world import CANARY, a_world

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(900)]

MARKUP = "<b id='zz'>\"&'</b>"
NUL = "a\x00b"
LONG = "\u00e9" * 10_240
KEPT = "\U0001d54c \u05e9\u05dc\u05d5\u05dd \u0645\u06cc\u200c\u062e\u0648\u0627 Cafe\u0301"
"""Four bytes a character, right to left, joined by its script's own rule, composed of marks."""
DECEIVES = {
    "a pile of marks": "a" + "\u0301" * 40,
    "look-alike letters": "\u0410cme",
    "an override of direction": "acme\u202egnp",
    "nothing visible": "\u200b",
}
TEXTS = {
    "every script": KEPT,
    **DECEIVES,
    "markup": MARKUP,
    "two lines": 'a\nb{x="1"} 2',
    "a NUL": NUL,
    "ten kilobytes": LONG,
}
CARRIED = ("markup", "a NUL", "ten kilobytes")
"""What is tried in a field that a page carries along and a person never types."""
NAMES = {"name", "full_name"}
AMOUNTS = {
    "minus one": "-1",
    "two to the sixty-third": "9223372036854775808",
    "forty digits": "1" * 40,
    "a fraction": "0.5",
    "an exponent form": "1e3",
    "not a number": "NaN",
    "another script's digits": "\u0663",
    "nothing": "",
    "zero": "0",
}


def owner() -> Browser:
    """The browser of the tenant's owner."""
    return Browser.of(User.objects.get(email=f"owner@{CANARY}.test"))


def operator() -> Browser:
    """The browser of an operator who may do everything."""
    return Browser.of(User.objects.get(email="watcher@platform.test"))


def starts_of(place: str) -> list[str]:
    """Where the walk begins: the home, and what is only shown once something was chosen."""
    if place == "console":
        cohorts.cohort_create(name="under", parent="pair", actor=OPERATOR)
        idle = Node.objects.get(name="host-2")
        nodes.node_drain(node_id=idle.pk, reason="a test", actor=OPERATOR)
        return [
            "/console/",
            f"/console/tenants/{CANARY}/standing/?tier=spare&cohort=empty",
            "/console/nodes/host-2/drain-plan/",
            "/console/cohorts/under/",
        ]
    here = f"/t/{CANARY}"
    job = Workload.objects.get()
    return [
        f"{here}/",
        f"{here}/launch/?sku=h100.slice&slots=1&name=one&wait=1",
        f"{here}/workloads/new/?kind=job&sku=h100.slice&slots=1&replicas=2&name=two&wait=1",
        f"{here}/workloads/{job.pk}/priority/?band=200",
    ]


PLACES = {"portal": owner, "console": operator}
UNSEEN = {
    "console:defrag": "only where moves make room: tests/console/test_placing.py",
    "console:allocation-act": "only of a blocked cleanup: tests/console/test_actions.py",
    "console:node-slot-override": "only of a slot with traces: tests/console/test_approvals.py",
}
"""Forms that this world does not show, with where they are sent instead."""


def changing(place: str) -> set[str]:
    """The pages of a place that something is sent to."""
    patterns = console.urlpatterns if place == "console" else portal.tenant_pages
    found = {
        f"{place}:{entry.name}"
        for entry in patterns
        if isinstance(entry, URLPattern)
        and hasattr(getattr(entry.callback, "view_class", None), "post")
    }
    return found - set(UNSEEN)


def sent(browser: Browser, form: Form, name: str, value: str) -> Any:
    """The answer to the form with this value in this field, and the page after it; all undone."""
    data = form.filled() | {name: [value]}
    with transaction.atomic():
        before = Event.objects.count()
        if form.method == "get":
            path = form.action.partition("?")[0]
            answer: Any = browser.get(f"{path}?{urlencode(data, doseq=True)}")
        else:
            answer = browser.send(form.action, data)
        answer.wrote = Event.objects.count() - before
        answer.then = None
        if answer.status_code == 302:
            answer.then = browser.get(answer.headers["Location"])
            answer.metrics = Client().get("/metrics").content.decode()
        transaction.set_rollback(True)
    return answer


def named(answer: Any, form: Form, one: Field) -> bool:
    """Whether the field is named by its fault: beside it, or by a pointer to it."""
    html = answer.content.decode()
    short = one.name.rpartition("-")[2]
    beside = re.search(rf'id="[\w-]*{re.escape(short)}_error"', html) is not None
    return beside or re.search(rf"<code>/[\w/-]*{re.escape(short)}", html) is not None


def complaints(answer: Any, form: Form, one: Field, what: str, value: str) -> Iterator[str]:
    """What is wrong with the answer to one text."""
    where = f"{form.method} {form.view} {one.name}: {what}: {answer.status_code}"
    for shown in (answer, answer.then):
        if shown is None or "html" not in shown.headers.get("Content-Type", "html"):
            continue
        if shown.status_code >= 500:
            yield where
            continue
        html = shown.content.decode()
        if "<b id='zz'" in html:
            yield f"{where}: shown as markup"
        page = Page("", html)
        if page.unbalanced:
            yield f"{where}: not well-formed: {page.unbalanced[:2]}"
    if answer.then is not None:
        try:
            list(text_string_to_metric_families(answer.metrics))
        except ValueError as wrong:
            yield f"{where}: metrics: {wrong}"
    if form.method == "post":
        too_long = value is LONG and one.most is not None
        deceives = what in DECEIVES and one.name.rpartition("-")[2] in NAMES
        # What a page carries hidden has no place on it at which a fault could be told.
        seen = named(answer, form, one) or one.kind == "hidden"
        if (value is NUL or too_long or deceives) and not (
            answer.status_code == 400 and seen and not answer.wrote
        ):
            yield f"{where}: not refused beside its field, wrote {answer.wrote}"


class Lines(logging.Handler):
    """What the product would have logged, as lines."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: list[str] = []
        console = next(h for h in logging.getLogger().handlers if h.formatter)
        self.setFormatter(console.formatter)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is not one line of JSON."""
        line = self.format(record)
        try:
            json.loads(line)
            one = "\n" not in line
        except ValueError:
            one = False
        if not one:
            self.broken.append(line[:200])


@pytest.mark.parametrize("place", PLACES)
def test_a_text_in_any_script_and_length_is_kept_or_refused_beside_its_field(
    place: str,
) -> None:
    a_world()
    browser = PLACES[place]()
    browser.raise_request_exception = False
    forms, broken = walked(browser, starts_of(place), place)
    assert broken == []
    assert changing(place) - {form.view for form in forms if form.method == "post"} == set()
    wrong: list[str] = []
    tried = 0
    lines = Lines()
    logging.getLogger().addHandler(lines)
    for form in forms:
        for one in form.fields:
            if one.kind not in ("text", "hidden"):
                continue
            for what, value in TEXTS.items():
                if one.kind == "hidden" and what not in CARRIED:
                    continue
                tried += 1
                answer = sent(browser, form, one.name, value)
                wrong += complaints(answer, form, one, what, value)
    logging.getLogger().removeHandler(lines)
    assert wrong == []
    assert lines.broken == []
    assert tried > 300


@pytest.mark.parametrize("place", PLACES)
def test_no_amount_at_the_edge_is_taken_by_any_form(place: str) -> None:
    a_world()
    browser = PLACES[place]()
    browser.raise_request_exception = False
    forms, _ = walked(browser, starts_of(place), place)
    wrong: list[str] = []
    tried = 0
    for form in forms:
        for one in form.fields:
            if one.kind != "number":
                continue
            for what, value in AMOUNTS.items():
                taken = (
                    (what == "nothing" and not one.needed)
                    or (what == "zero" and (one.least in ("", "0")))
                    or (what == "a fraction" and one.decimal)
                )
                tried += 1
                answer = sent(browser, form, one.name, value)
                refused = answer.status_code in (200, 400) and named(answer, form, one)
                if form.method == "post":
                    refused = refused and answer.status_code == 400 and not answer.wrote
                if answer.status_code >= 500 or not (taken or refused):
                    wrong.append(
                        f"{form.method} {form.view} {one.name}: {what}: {answer.status_code}"
                    )
    assert wrong == []
    assert tried > 100
