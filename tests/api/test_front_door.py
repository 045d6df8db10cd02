"""Is a request heard out, and is who asked told apart from who handed it on?"""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from gpuaas import wsgi
from gpuaas.proxies import networks_of
from gpuaas.wsgi import application
from tenants.models import Project
from tests.api.client import Caller, caller_of
from tests.builders import a_catalogue, a_tenant


@pytest.fixture
def acme() -> Caller:
    a_catalogue()
    return caller_of(a_tenant("acme"))


def in_chunks(
    body: bytes, token: str, path: str = "/api/v1/projects", kind: str = "application/json"
) -> tuple[str, bytes, int]:
    """Status and answer to a body that came without a length, as a server hands it on, and how
    much of it was taken."""
    told: list[str] = []
    stream = io.BytesIO(body)
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": kind,
        "HTTP_AUTHORIZATION": f"Bearer {token}",
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input": stream,
        "wsgi.input_terminated": True,
        "wsgi.url_scheme": "http",
    }
    answer = b"".join(application(environ, lambda status, headers: told.append(status)))
    return told[0], answer, stream.tell()


@pytest.mark.django_db(transaction=True)
def test_a_body_without_a_length_is_read_to_its_end(acme: Caller) -> None:
    status, made, _ = in_chunks(b'{"name": "chunked"}', acme.token)
    assert status == "201 Created"
    assert Project.objects.get(pk=json.loads(made)["id"]).name == "chunked"


@pytest.mark.parametrize(
    ("length", "taken"), [(1_100_000, 1_100_000), (3_000_000, 3_000_000), (18_000_000, 16 << 20)]
)
@pytest.mark.django_db(transaction=True)
def test_one_without_a_length_is_heard_out_as_far_as_one_that_has_it(
    acme: Caller, length: int, taken: int
) -> None:
    status, answer, came = in_chunks(b"x" * length, acme.token)
    assert (status[:3], json.loads(answer)["code"]) == ("413", "body_too_large")
    assert came == taken


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    "kind", [FORM, f"{FORM}; charset=utf-8", "Multipart/Form-Data; boundary=x"]
)
@pytest.mark.django_db(transaction=True)
def test_a_page_takes_no_form_of_which_the_end_may_be_missing(acme: Caller, kind: str) -> None:
    status, answer, came = in_chunks(b"email=ada@example.org&pass", "", "/sign-in/", kind)
    assert status == "411 Length Required"
    assert b"Content-Length" in answer
    assert came == 26
    status, answer, _ = in_chunks(b"name=x", acme.token, kind=kind)
    assert (status[:3], json.loads(answer)["code"]) == ("415", "unsupported_media_type")


class Sent(io.BytesIO):
    """A body on its way, which remembers how far it was taken."""

    def taken(self) -> int:
        return self.tell()


def sent(body: bytes, token: str, path: str = "/api/v1/projects") -> tuple[str, str, int]:
    """Status, code, and how much of the body was taken before the answer."""
    told: list[tuple[str, int]] = []
    stream = Sent(body)
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_AUTHORIZATION": f"Bearer {token}",
        "wsgi.input": stream,
        "wsgi.input_terminated": True,
        "wsgi.url_scheme": "http",
    }
    begun = application(environ, lambda status, headers: told.append((status, stream.taken())))
    answer = json.loads(b"".join(begun))
    return told[0][0][:3], answer["code"], told[0][1]


@pytest.mark.parametrize(
    ("token", "path", "status", "code"),
    [
        ("gpuaas_pat_nobody", "/api/v1/projects", "401", "unauthenticated"),
        ("", "/api/v1/nothing", "404", "not_found"),
        ("", "/api/v1/skus", "403", "permission_denied"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_who_is_refused_at_the_door_was_let_finish_first(
    acme: Caller, token: str, path: str, status: str, code: str
) -> None:
    """Otherwise the server hangs up on a client that is still sending, which never learns why."""
    body = b'{"name": "late"}'
    assert sent(body, token or acme.token, path) == (status, code, len(body))


@pytest.mark.django_db(transaction=True)
def test_a_body_that_is_somewhat_too_long_is_heard_out_and_a_huge_one_is_not(
    acme: Caller,
) -> None:
    somewhat, huge = b"x" * 3_000_000, b"x" * 18_000_000
    assert sent(somewhat, acme.token) == ("413", "body_too_large", len(somewhat))
    status, code, taken = sent(huge, acme.token)
    assert (status, code) == ("413", "body_too_large")
    assert taken < 1_100_000


@pytest.mark.django_db
def test_an_address_that_leads_nowhere_is_told_apart_from_a_thing_that_is_not_there(
    acme: Caller,
) -> None:
    slash = acme.get("/projects/").json()
    assert slash["code"] == "not_found"
    assert slash["detail"].endswith("without the slash at its end there is.")
    assert acme.get("/nothing/").json()["detail"] == "There is nothing at /api/v1/nothing/."
    missing = acme.get(f"/projects/{uuid4()}").json()
    assert (missing["code"], missing["detail"]) == ("not_found", "There is no such object")


@pytest.mark.django_db
def test_a_compressed_body_is_refused_by_its_coding(acme: Caller) -> None:
    squeezed = gzip.compress(b'{"name": "x"}')
    answer = acme.call("POST", "/projects", squeezed, HTTP_CONTENT_ENCODING="gzip")
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert "gzip" in answer.json()["detail"]


@pytest.mark.django_db
def test_the_mark_that_some_programs_begin_a_file_with_is_no_hindrance(acme: Caller) -> None:
    answer = acme.call("POST", "/projects", b'\xef\xbb\xbf{"name": "marked"}')
    assert answer.status_code == 201, answer.content


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
@pytest.mark.django_db
def test_probes_that_know_the_server_by_its_address_alone_are_answered(
    acme: Caller, path: str
) -> None:
    nobody = Caller("")
    assert nobody.get(path, HTTP_HOST="10.1.2.3:8000").status_code == 200
    refused = nobody.get("/api/v1/skus", HTTP_HOST="10.1.2.3:8000")
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    assert refused.json()["detail"].startswith("The Host header is none")


def test_behind_a_trusted_proxy_the_caller_and_the_scheme_are_those_it_names(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[dict[str, Any]] = []

    def keep(environ: dict[str, Any], _: object) -> tuple[bytes, ...]:
        heard.append(environ)
        return ()

    monkeypatch.setattr(wsgi, "_django", keep)
    proxies = networks_of(["10.0.0.7"])
    settings.CONFIG = replace(settings.CONFIG, trusted_proxies=proxies)
    for address in ("10.0.0.7", "10.0.0.8"):
        environ = {
            "REQUEST_METHOD": "GET",
            "REMOTE_ADDR": address,
            "HTTP_X_FORWARDED_FOR": "198.51.100.4",
            "HTTP_X_FORWARDED_PROTO": "https",
            "wsgi.input": io.BytesIO(),
            "wsgi.url_scheme": "http",
        }
        application(environ, lambda *_: None)
    assert [(e["REMOTE_ADDR"], e["wsgi.url_scheme"]) for e in heard] == [
        ("198.51.100.4", "https"),
        ("10.0.0.8", "http"),
    ]
