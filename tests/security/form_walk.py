"""Which forms do the portal and the console show, and what would a person send with each?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

from django.urls import Resolver404, resolve

from gpuaas.kernel import ids
from gpuaas.portal.doors import DOORS
from tests.portal.conftest import Browser
from tests.security.world import KEY

VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "path", "rect", "use"})
CARRIED = frozenset({"csrfmiddlewaretoken", "once"})
"""What the page says for the browser, not for the person."""
OF_A_VIEW = 6
"""How many addresses of one view are looked at: they differ in what they are about."""
SAMPLES = {
    "reason": "a test",
    "email": "somebody@example.test",
    "opens_at": "2099-01-01T00:00",
    "closes_at": "2099-01-02T00:00",
    "starts_at": "2099-01-01T00:00",
    "ends_at": "2099-01-02T00:00",
    "effective_from": "2099-01-01T00:00",
    "justification": "the next run needs it",
    "public_key": KEY,
}


@dataclass
class Field:
    """One input of a form."""

    name: str
    kind: str
    """``text``, ``number``, ``hidden``, or ``other`` for what is chosen or ticked."""
    id: str
    values: list[str] = field(default_factory=list)
    most: int | None = None
    least: str = ""
    decimal: bool = False
    needed: bool = False

    def sample(self) -> list[str]:
        """What a person would send: what stands there, or something plain."""
        if self.values or self.kind in ("other", "hidden"):
            return self.values
        if self.kind == "number":
            return [self.least or "1"] if self.needed else []
        return [SAMPLES.get(self.name.rpartition("-")[2], "sample")] if self.needed else []


@dataclass
class Form:
    """One form of one page."""

    page: str
    method: str
    action: str
    fields: list[Field] = field(default_factory=list)
    pressed: Field | None = None

    @property
    def view(self) -> str:
        """The name of the page that it is sent to."""
        return name_of(self.action)

    def kinds(self) -> tuple[str, str, tuple[str, ...]]:
        """What makes it another form than one that was seen."""
        return self.view, self.method, tuple(sorted({f.name for f in self.fields}))

    def filled(self) -> dict[str, list[str]]:
        """What a person would send."""
        found: dict[str, list[str]] = {"once": [str(ids.new_id())]}
        for one in self.fields:
            found.setdefault(one.name, []).extend(one.sample())
        return {name: values for name, values in found.items() if values}


def name_of(address: str) -> str:
    """The name of the page at an address, with its place; '' where there is none."""
    try:
        match = resolve(urlsplit(address).path)
    except Resolver404:
        return ""
    return match.view_name or ""


class Page(HTMLParser):
    """A page's links and forms, and whether its elements are closed as they were opened."""

    def __init__(self, address: str, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.address, self.links, self.forms = address, [], []  # type: tuple[str, list[str], list[Form]]
        self.unbalanced: list[str] = []
        self.ids: Counter[str] = Counter()
        self._open: list[str] = []
        self._form: Form | None = None
        self._text: Field | None = None
        self._select: tuple[Field, bool] | None = None
        self.feed(html)
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a reader could follow, fill or send."""
        given = {name: value or "" for name, value in attrs}
        if given.get("id"):
            self.ids[given["id"]] += 1
        if tag not in VOID:
            self._open.append(tag)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "form":
            action = given.get("action") or self.address
            method = given.get("method", "get").lower()
            self._form = Form(self.address, method, action)
            self.forms.append(self._form)
        elif tag == "button" and self._form is not None:
            self._button(given)
        elif self._form is not None:
            self._input(tag, given)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of a drawing that closes itself."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Every element closes the one that was opened last."""
        if tag in VOID:
            return
        if not self._open or self._open[-1] != tag:
            self.unbalanced.append(f"</{tag}> in {self._open[-3:]}")
        if tag in self._open:
            while self._open.pop() != tag:
                pass
        self._text = None if tag == "textarea" else self._text
        self._select = None if tag == "select" else self._select
        self._form = None if tag == "form" else self._form

    def handle_data(self, data: str) -> None:
        """A text area's content is its value."""
        if self._text is not None and data.strip():
            self._text.values = [data.lstrip("\n")]

    def _button(self, given: dict[str, str]) -> None:
        """The main button is pressed, or the first: what it says and where it leads."""
        form = self._form
        assert form is not None
        main = "main" in given.get("class", "").split()
        if given.get("type") == "button" or (form.pressed is not None and not main):
            return
        form.fields = [one for one in form.fields if one is not form.pressed]
        form.pressed = Field(given.get("name", ""), "other", "", [given.get("value", "")])
        form.action = given.get("formaction") or form.action
        if form.pressed.name:
            form.fields.append(form.pressed)

    def _input(self, tag: str, given: dict[str, str]) -> None:
        assert self._form is not None
        name, kind = given.get("name", ""), given.get("type", "text")
        if tag == "option" and self._select is not None:
            chosen, decided = self._select
            value = given.get("value", "")
            if "selected" in given or (not decided and not chosen.values and value):
                chosen.values = [value] if value else []
                self._select = (chosen, decided or "selected" in given)
        if not name or name in CARRIED or "disabled" in given:
            return
        made = Field(name, "other", given.get("id", ""), needed="required" in given)
        if tag == "select":
            self._select = (made, False)
        elif tag == "textarea":
            made.kind, self._text = "text", made
        elif tag == "input":
            self._typed(made, kind, given)
        else:
            return
        most = given.get("maxlength", "")
        made.most = int(most) if most else None
        self._form.fields.append(made)

    def _typed(self, made: Field, kind: str, given: dict[str, str]) -> None:
        made.values = [given["value"]] if given.get("value") else []
        if kind in ("checkbox", "radio"):
            made.values = [given.get("value", "on")] if "checked" in given else []
        elif kind == "number" or given.get("inputmode") in ("decimal", "numeric"):
            made.kind, made.least = "number", given.get("min", "")
            made.decimal = given.get("inputmode") == "decimal"
        elif kind == "hidden":
            made.kind = "hidden"
        elif kind in ("text", "search", "email", "url", "password"):
            made.kind = "text"


def walked(browser: Browser, starts: list[str], place: str) -> tuple[list[Form], list[str]]:
    """Every kind of form that links lead to from some pages, and what was not well-formed."""
    todo, seen, looked = list(starts), set(starts), Counter[str]()
    forms: dict[Any, Form] = {}
    broken: list[str] = []
    while todo:
        address = todo.pop(0)
        view = name_of(address)
        if not view.startswith(place) or view in DOORS or looked[view] >= OF_A_VIEW:
            continue
        looked[view] += 1
        answer = browser.get(address)
        if answer.status_code != 200 or "html" not in answer.headers.get("Content-Type", ""):
            continue
        page = Page(address, answer.content.decode())
        broken += [f"{address}: {what}" for what in page.unbalanced]
        for form in page.forms:
            forms.setdefault(form.kinds(), form)
        for link in followed(page, address):
            if link not in seen:
                seen.add(link)
                todo.append(link)
    return [form for form in forms.values() if form.view not in DOORS], broken


def followed(page: Page, address: str) -> Iterator[str]:
    """Links to other pages of ours, whole."""
    for link in page.links:
        if link.startswith("/"):
            yield link.partition("#")[0]
        elif link.startswith("?"):
            yield urlsplit(address).path + link
