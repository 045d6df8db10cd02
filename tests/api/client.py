"""How does a test call the API?  Like a client, and every answer is held against the document."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from rest_framework.test import APIClient

from gpuaas.api.schema import document
from gpuaas.kernel import ids
from tenants.models import User
from tenants.services import access
from tests.builders import OPERATOR, TenantWorld

OTHER_ADDRESSES = ("/api", "/agent", "/livez", "/readyz", "/metrics", "/problems")
PASSWORD = "correct horse battery"


@lru_cache(maxsize=1)
def described() -> dict[str, Any]:
    """The OpenAPI document."""
    found: dict[str, Any] = yaml.safe_load(document())
    return found


@lru_cache(maxsize=1)
def _paths() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    found = []
    for template, item in described()["paths"].items():
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", template)
        found.append((re.compile(f"{pattern}$"), item))
    return sorted(found, key=lambda entry: entry[0].pattern.count("[^/]+"))


def check_described(method: str, path: str, response: Any) -> None:
    """The answer's status and body are those that the document promises."""
    path = path.partition("?")[0]
    operation = next(
        (item[method.lower()] for p, item in _paths() if p.match(path) and method.lower() in item),
        None,
    )
    if operation is None or response.status_code in (304, 405):
        return
    status = str(response.status_code)
    assert status in operation["responses"], f"{method} {path} answered {status}, undocumented"
    entry = operation["responses"][status]
    if "$ref" in entry:
        entry = described()["components"]["responses"][entry["$ref"].rsplit("/", 1)[1]]
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    content = entry.get("content", {})
    if not content:
        assert response.content == b""
        return
    assert kind in content, f"{method} {path} {status} is {kind}, not {list(content)}"
    if "json" in kind:
        schema = {**content[kind]["schema"], "components": described()["components"]}
        errors = sorted(
            Draft202012Validator(schema).iter_errors(json.loads(response.content)),
            key=lambda error: list(map(str, error.path)),
        )
        assert not errors, f"{method} {path} {status}: {errors[0].message} at {errors[0].path}"


class Caller:
    """One principal calling the API."""

    def __init__(self, token: str = "") -> None:
        self.http = APIClient(raise_request_exception=False)
        self.token = token

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """One request; ``headers`` are written as Django writes them (HTTP_IF_MATCH)."""
        sent: dict[str, Any] = dict(headers)
        if self.token:
            sent.setdefault("HTTP_AUTHORIZATION", f"Bearer {self.token}")
        if not path.startswith(OTHER_ADDRESSES):
            path = f"/api/v1{path}"
        if body is None:
            response = self.http.generic(method, path, **sent)
        else:
            sent.setdefault("content_type", "application/json")
            raw: Any = self.encoded(body)
            response = self.http.generic(method, path, raw, **sent)
        if not getattr(response, "streaming", False):
            check_described(method, path, response)
        return response

    def encoded(self, body: Any) -> bytes:
        """The body as it is sent; bytes go as they are."""
        return body if isinstance(body, bytes) else json.dumps(body).encode()

    def get(self, path: str, **headers: str) -> Any:
        """GET."""
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, *, key: str | None = "", **headers: str) -> Any:
        """POST with a fresh Idempotency-Key, the one given, or none."""
        if key is not None:
            headers["HTTP_IDEMPOTENCY_KEY"] = key or str(ids.new_id())
        return self.call("POST", path, {} if body is None else body, **headers)


def token_of(user: User, world: TenantWorld | None = None, **how: Any) -> str:
    """A token of a person in a tenant, or of an operator."""
    _, text = access.token_create(
        user=user,
        tenant_id=world.tenant.pk if world else None,
        name="test",
        scopes=how.get("scopes", []),
        expires_in_days=how.get("days", 1),
        actor=OPERATOR,
    )
    return text


def caller_of(world: TenantWorld, user: User | None = None, **how: Any) -> Caller:
    """A caller with a token of the tenant's owner, or of another member."""
    return Caller(token_of(user or world.owner, world, **how))


def an_operator(email: str = "operator@platform.test", role: str = "administrator") -> User:
    """An account of the platform's own."""
    return User.objects.create_user(email, PASSWORD, is_staff=True, operator_role=role)


def operator_caller(
    email: str = "operator@platform.test", role: str = "administrator", **how: Any
) -> Caller:
    """A caller with an operator's token."""
    return Caller(token_of(an_operator(email, role), **how))


def order_body(**wishes: Any) -> dict[str, Any]:
    """A body that asks for one slot."""
    return {"sku": "h100.slice", "slots": 1, **wishes}
