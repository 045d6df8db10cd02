"""How is the API described?  One OpenAPI document, made from the views and the error catalogue."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.utils import OpenApiParameter
from rest_framework.serializers import Serializer

from gpuaas.api.base import CHANGES, REMEMBERED, ProductView
from gpuaas.api.middleware import HEADER as REQUEST_ID_HEADER
from gpuaas.api.permissions import Rule, rule_of
from gpuaas.api.routes import view_routes

_TEXT = {"type": "string"}

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": (
        "A failure (RFC 9457). Branch on `code`, which is permanent; `detail` is for people."
    ),
    "required": ["type", "title", "status", "detail", "code", "request_id", "retryable"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "instance": _TEXT,
        "code": {
            "type": "string",
            "pattern": "^[a-z][a-z0-9_]{2,62}$",
            "description": "One of those that /api/v1/reasons lists.",
        },
        "request_id": _TEXT,
        "retryable": {"type": "boolean"},
        "retry_after_s": {"type": "integer"},
        "unblock": {"type": "string", "description": "What would help."},
        "docs": {"type": "string", "format": "uri-reference"},
        "decision": {"type": "string", "description": "The stored decision behind a refusal."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "in", "code", "detail"],
                "properties": {
                    "pointer": {"type": "string", "description": "A JSON pointer (RFC 6901)."},
                    "in": {"type": "string", "enum": ["body", "query"]},
                    "code": _TEXT,
                    "detail": _TEXT,
                },
            },
        },
        "facts": {
            "type": "object",
            "additionalProperties": True,
            "description": "The numbers behind the refusal.",
        },
    },
    "example": {
        "type": "/problems/envelope-exceeded",
        "title": "The request exceeds the tenant's envelope",
        "status": 403,
        "detail": "2000 + 7000 of h100-slot would exceed 8000.",
        "instance": "/api/v1/projects/default/allocations",
        "code": "envelope_exceeded",
        "request_id": "019ac3a2-7f6e-7c3e-9d52-3a1f5b0c9a11",
        "retryable": False,
        "unblock": "Release something, ask for less, or ask the operator for a larger envelope.",
        "docs": "/docs/reasons/envelope_exceeded",
        "errors": [],
        "facts": {"used_milli": 2000, "asked_milli": 7000, "limit_milli": 8000},
    },
}

_WORDS = {
    400: "The request is not valid; each wrong field is named.",
    401: "Nobody we know.",
    403: "Known, but not allowed; or the tenant's authority does not reach that far.",
    404: "No such object, or not the caller's: the answer is the same.",
    409: "The state of things does not allow it now.",
    412: "The object has another version than If-Match names.",
    413: "The body is over 1 MiB.",
    415: "The body is not JSON.",
    422: "The Idempotency-Key stood for another request.",
    428: "If-Match is missing.",
    429: "Too many requests; Retry-After says when to come again.",
    500: "Our fault; the request id finds it in the log.",
    503: "A part that is needed cannot be reached; repeat with the same Idempotency-Key.",
}


class Schema(AutoSchema):
    """Adds to each operation what every view does: headers, problems, who may call."""

    view: ProductView  # type: ignore[override]  # every documented view is one

    def get_override_parameters(self) -> list[Any]:
        """The headers that the base view reads."""
        found: list[Any] = []
        if self.method in REMEMBERED and self.view.remembers:
            found.append(
                OpenApiParameter(
                    "Idempotency-Key",
                    str,
                    OpenApiParameter.HEADER,
                    required=self.method == "POST" and self.view.key_required,
                    description="A fresh UUID; the same one when the request is repeated.",
                )
            )
        if self.method == "PATCH":
            found.append(
                OpenApiParameter(
                    "If-Match",
                    str,
                    OpenApiParameter.HEADER,
                    required=True,
                    description="The ETag that was read.",
                )
            )
        if self.method in CHANGES and "{" in self.path:
            found.append(
                OpenApiParameter(
                    "If-Match",
                    str,
                    OpenApiParameter.HEADER,
                    description="The ETag that was read, where only that version is meant.",
                )
            )
        return found

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        """The operation with its problems, and a line about who may call it."""
        operation = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        rule = self._rule()
        for status in self._failures(rule, "requestBody" in operation):
            operation["responses"].setdefault(
                str(status), {"$ref": f"#/components/responses/Problem{status}"}
            )
        operation["responses"] = dict(sorted(operation["responses"].items()))
        who = admitted(rule)
        operation["description"] = f"{operation.get('description', '')}\n\n{who}".strip()
        if rule is not None and rule.who == "anyone":
            operation["security"] = []
        return operation

    def _rule(self) -> Rule | None:
        for entry in view_routes():
            if entry[1] is type(self.view) and rule_of(entry[0], self.method):
                return rule_of(entry[0], self.method)
        return None

    def _failures(self, rule: Rule | None, has_body: bool) -> list[int]:
        found = [400, 429, 500, 503, *self.view.also_fails]
        if rule is None or rule.who != "anyone":
            found += [401, 403]
        if "{" in self.path:
            found.append(404)
        if has_body:
            found += [413, 415]
        if self.method in {"POST", "PUT", "PATCH"}:
            found += [409]
        if self.method == "POST" or (self.method in REMEMBERED and self.view.remembers):
            found.append(422)
        if self.method == "PATCH":
            found += [412, 428]
        if self.method in CHANGES and "{" in self.path:
            found.append(412)
        return found

    def _get_serializer_name(
        self, serializer: Serializer[Any], direction: Any, bypass_extensions: bool = False
    ) -> str:
        name: str = super()._get_serializer_name(serializer, direction, bypass_extensions)
        for ending in ("InRequest", "Out", "In"):
            if name.endswith(ending):
                kept = name.removesuffix(ending)
                return f"{kept}Request" if ending == "InRequest" else kept
        return name


def admitted(rule: Rule | None) -> str:
    """Who may call, in words."""
    if rule is None or rule.who == "anyone":
        return "No sign-in is needed."
    if rule.who == "signed_in":
        return "For anyone who is signed in."
    if rule.who == "operator":
        return f"For operators, with the scope `{rule.operator_action}`."
    text = f"For the tenant's members whose role carries `{rule.action}`"
    return f"{text}." if rule.who == "tenant" else f"{text}; operators see every tenant's."


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    """Describes the bearer token."""

    target_class = "gpuaas.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """The scheme's entry in the document."""
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "gpuaas_pat_…",
            "description": "A token made at /auth/token or /tokens.",
        }


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    """Describes the portal's cookie."""

    target_class = "gpuaas.api.authentication.PortalSessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """The scheme's entry in the document."""
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "gpuaas_session",
            "description": "The portal's session; changes need its CSRF token.",
        }


def finish(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Put in what belongs to the document as a whole."""
    components = result.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = PROBLEM
    components["schemas"] = dict(sorted(components["schemas"].items()))
    components["headers"] = {
        REQUEST_ID_HEADER: {"description": "The request's id.", "schema": _TEXT},
        "RateLimit": {"description": "What is left of the limit.", "schema": _TEXT},
    }
    components["responses"] = {
        f"Problem{status}": {
            "description": words,
            "headers": {
                name: {"$ref": f"#/components/headers/{name}"}
                for name in (REQUEST_ID_HEADER, "RateLimit")
            },
            "content": {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            },
        }
        for status, words in _WORDS.items()
    }
    return result


@lru_cache(maxsize=1)
def document() -> bytes:
    """The whole document as YAML."""
    generator: Any = SchemaGenerator
    renderer: Any = OpenApiYamlRenderer
    found = generator().get_schema(request=None, public=True)
    return bytes(renderer().render(found, renderer_context={}))
