"""What is wrong between this terminal and the control plane?"""

import email.utils
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuaas.cli import values
from gpuaas.cli.exits import Exit
from gpuaas.cli.problems import CliError, Json, ProblemError
from gpuaas.cli.session import Session
from gpuaas.version import VERSION

MAX_SKEW_S = 60.0


@dataclass(frozen=True)
class Check:
    """One finding: `result` is ok, warn, fail or skip."""

    name: str
    result: str
    detail: str
    exit_code: Exit = Exit.FAILURE

    def row(self) -> Json:
        """The check as an item of a listing."""
        return {"name": self.name, "result": self.result, "detail": self.detail}


def run_checks(session: Session, now: Callable[[], float] = time.time) -> list[Check]:
    """Every check in order; one that needs a failed one is skipped."""
    checks = [_config_file(session)]
    if not session.settings.server:
        checks.append(Check("server", "fail", "none set; use --server or log in", Exit.USAGE))
        return checks
    reached = _server(session, now)
    checks.extend(reached)
    checks.append(_encryption(session))
    if reached[0].result == "fail":
        checks.append(Check("token", "skip", "the server was not reached"))
        return checks
    checks.extend(_identity(session))
    checks.append(Check("client", "ok", f"version {VERSION}"))
    return checks


def _config_file(session: Session) -> Check:
    path = session.config.path
    exposed = session.config.exposed_mode()
    if exposed is not None:
        return Check("context file", "warn", f"{path} has mode {exposed:04o}; chmod 600")
    if not path.exists():
        return Check("context file", "ok", f"{path} does not exist yet")
    return Check("context file", "ok", f"{path}, context {session.settings.context_name}")


def _server(session: Session, now: Callable[[], float]) -> list[Check]:
    server, source = session.settings.server, session.settings.server_source
    started = time.monotonic()
    try:
        with session.connect(server, session.settings.token, attempts=1) as client:
            try:
                headers = dict(client.transport.request("GET", "/me").headers)
            except ProblemError as problem:
                # A refusal is an answer too: the server is there. Its date is lost with it.
                if problem.status >= 500:
                    raise
                headers = {}
    except CliError as error:
        return [Check("server", "fail", error.message, error.exit_code)]
    took_ms = (time.monotonic() - started) * 1000
    found = [Check("server", "ok", f"{server} (from {source}) answered in {took_ms:.0f} ms")]
    stamp = headers.get("date")
    if stamp:
        skew = now() - email.utils.parsedate_to_datetime(stamp).timestamp()
        wrong = abs(skew) > MAX_SKEW_S
        found.append(
            Check(
                "clock",
                "warn" if wrong else "ok",
                f"{values.span(abs(skew))} {'ahead of' if skew > 0 else 'behind'} the server"
                if abs(skew) >= 2
                else "agrees with the server",
            )
        )
    return found


def _encryption(session: Session) -> Check:
    server = session.settings.server
    if server.startswith("https://"):
        return Check("encryption", "ok", "TLS")
    host = server.removeprefix("http://").split("/", 1)[0]
    if host.startswith(("127.", "localhost", "[::1]")):
        return Check("encryption", "ok", "none needed on this machine")
    return Check("encryption", "warn", f"{server} sends the token in clear")


def _identity(session: Session) -> list[Check]:
    if not session.settings.token:
        return [Check("token", "fail", "none; gpuaas login", Exit.AUTH)]
    try:
        me = session.client.get("/me")
    except CliError as error:
        return [Check("token", "fail", error.message, error.exit_code)]
    who = values.text(me.get("email"))
    found = [Check("token", "ok", f"{who} (from {session.settings.token_source})")]
    found.append(
        Check("scopes", "ok", values.text(me.get("scopes")) if me.get("scopes") else "all")
    )
    try:
        found.append(Check("project", "ok", session.project()))
    except CliError as error:
        found.append(Check("project", "warn", error.message))
    return found
