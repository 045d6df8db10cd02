"""A provider of OpenID Connect as a process of its own.

The package's provider, made strict where it is lax: it takes a code only with the PKCE
verifier that fits the challenge, and wants a nonce. Faults for tests: ``tamper`` swaps the
signature of every ID token.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import warnings
from urllib.parse import parse_qs, urlsplit

warnings.simplefilter("ignore")

import flask  # noqa: E402  # after the filter: the package warns on import
from oidc_provider_mock import User, app  # type: ignore[import-untyped]  # noqa: E402


def strict(tamper: bool) -> flask.Flask:
    """The provider's application with PKCE enforced."""
    made: flask.Flask = app(
        require_nonce=True,
        user_claims=[
            User(sub="ada", claims={"email": "owner@acme.test", "email_verified": True}),
            User(sub="eve", claims={"email": "owner@acme.test", "email_verified": False}),
            User(sub="bob", claims={"email": "nobody@example.test", "email_verified": True}),
            User(sub="op", claims={"email": "op@platform.test", "email_verified": True}),
        ],
    )
    challenges: dict[str, str] = {}

    def check() -> flask.Response | None:
        if flask.request.path != "/oauth2/token":
            return None
        given = flask.request.form
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        fits = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if challenges.pop(given.get("code", ""), None) == fits:
            return None
        return flask.Response('{"error": "invalid_grant"}', 400, mimetype="application/json")

    def keep(answer: flask.Response) -> flask.Response:
        if flask.request.path == "/oauth2/authorize" and answer.location:
            asked = flask.request.args
            code = parse_qs(urlsplit(answer.location).query).get("code", [""])[0]
            if asked.get("code_challenge_method") == "S256" and asked.get("code_challenge"):
                challenges[code] = asked["code_challenge"]
        if flask.request.path == "/oauth2/token" and tamper and answer.is_json:
            body = json.loads(answer.get_data())
            if "id_token" in body:
                head, claims, signature = body["id_token"].split(".")
                body["id_token"] = ".".join((head, claims, signature[::-1]))
                answer.set_data(json.dumps(body))
        return answer

    made.before_request(check)
    made.after_request(keep)
    return made


if __name__ == "__main__":
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    strict(tamper="tamper" in sys.argv[2:]).run("127.0.0.1", int(sys.argv[1]))
