"""Are names in every script and length kept, normalised or refused by the declared rule?"""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.kernel import errors
from tenants.domain.names import MAX_LENGTH, BadName, clean_name, slug_of
from tenants.models import Project, Tenant
from tenants.services import tenancy
from tests.builders import OPERATOR
from tests.tenants.worlds import a_class

KEPT = (
    "acme",
    "Ünïcödé GmbH",
    "北京大学",
    "東京ラボ",
    "שלום עולם",
    "مختبر الذكاء",
    "می\u200cخواهم",  # noqa: RUF001
    "हिन्दी",
    "ИИ лаборатория",
    "Ελληνικά",
    "AI лаборатория",
    "𝕲𝖕𝖚",  # noqa: RUF001
    "👩\u200d🔬 team",
    "Ω-team",
    "O'Brien & Söhne <img>",
)
REFUSED = {
    "": "empty",
    " \t ": "empty",
    "a\0b": "U+0000",
    "a\nb": "U+000A",
    "a\x1b[31m": "U+001B",
    "a\u2028b": "U+2028",
    "a\u202eb": "U+202E",
    "a\u2066b": "U+2066",
    "a\u200bb": "U+200B",
    "a\u200db": "U+200D",
    "ac\u00adme": "U+00AD",
    "a\ue000": "U+E000",
    "a\ud800": "surrogate",
    "x" * (MAX_LENGTH + 1): "120 are allowed",
    "x" * 10_240: "120 are allowed",
    "e" + "\u0301" * 20: "marks",
    "\u0301": "seen",
    "\u0430\u0441me": "Cyrillic and Latin",
    "pa\u03c1er": "Greek and Latin",
}


@pytest.mark.parametrize("name", KEPT)
def test_a_name_in_any_script_is_kept(name: str) -> None:
    assert clean_name(f"  {name} ") == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize("name", REFUSED, ids=lambda name: ascii(name[:12]))
def test_what_disguises_a_name_or_breaks_a_line_is_refused(name: str) -> None:
    with pytest.raises(BadName, match=REFUSED[name].replace("+", r"\+")):
        clean_name(name)


def test_a_decomposed_name_is_the_composed_one() -> None:
    assert clean_name("Mu\u0308nchen") == "M\u00fcnchen"


@given(st.text(max_size=200))
def test_a_kept_name_is_one_visible_line_and_is_kept_again(raw: str) -> None:
    try:
        kept = clean_name(raw)
    except BadName:
        return
    assert kept.splitlines() == [kept]
    assert len(kept) <= MAX_LENGTH
    assert clean_name(kept) == kept
    slug = slug_of(kept)
    assert slug == "" or slug.replace("-", "").isalnum()
    assert slug.isascii()


@pytest.mark.django_db
@pytest.mark.parametrize("name", KEPT)
def test_every_kept_name_gets_an_address_of_its_own(name: str) -> None:
    a_class()
    first = tenancy.tenant_create(name=name, actor=OPERATOR)
    second = tenancy.tenant_create(name=name, actor=OPERATOR)
    assert first.name == second.name
    assert first.slug != second.slug
    assert first.slug.isascii()
    project = tenancy.project_create(tenant_id=first.pk, name=name, actor=OPERATOR)
    assert project.slug.isascii()


@pytest.mark.django_db
@pytest.mark.parametrize("name", REFUSED, ids=lambda name: ascii(name[:12]))
def test_a_refused_name_names_its_field_and_writes_nothing(name: str) -> None:
    a_class()
    with pytest.raises(errors.InvalidRequest) as refused:
        tenancy.tenant_create(name=name, actor=OPERATOR)
    assert [(e.pointer, e.code) for e in refused.value.errors] == [("/name", "name_refused")]
    assert not Tenant.objects.exists()
    assert not Project.objects.exists()
