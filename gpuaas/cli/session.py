"""What does one invocation hold? Its flags, settings, connection and output."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuaas.cli import values
from gpuaas.cli.client import Client, segment
from gpuaas.cli.config import ConfigFile, Settings, load_config, resolve
from gpuaas.cli.exits import Exit
from gpuaas.cli.output import Kind, Output
from gpuaas.cli.problems import CliError, Json, ProblemError, UsageError
from gpuaas.version import VERSION

DEFAULT_WAIT_S = 600.0


@dataclass(frozen=True)
class Flags:
    """The global flags, each usable before and after the subcommand; None was not given."""

    output: str | None = None
    json: bool | None = None
    columns: str | None = None
    no_headers: bool | None = None
    wait: bool | None = None
    timeout: str | None = None
    project: str | None = None
    context: str | None = None
    server: str | None = None
    token_file: str | None = None
    request_id: str | None = None
    quiet: bool | None = None
    verbose: bool | None = None
    debug: bool | None = None
    no_input: bool | None = None

    def over(self, outer: "Flags") -> "Flags":
        """These flags, with the outer command's where these were not given."""
        given = {k: v for k, v in vars(self).items() if v is not None}
        return replace(outer, **given)


class Session:
    """One invocation: everything a command needs, made when first used."""

    def __init__(self, flags: Flags, environ: Mapping[str, str] | None = None) -> None:
        self.flags = flags
        self.environ = os.environ if environ is None else environ
        self._config: ConfigFile | None = None
        self._settings: Settings | None = None
        self._output: Output | None = None
        self._client: Client | None = None

    @staticmethod
    def sleep(seconds: float) -> None:
        """Pause between retries and polls; a test takes note instead."""
        time.sleep(seconds)

    @property
    def config(self) -> ConfigFile:
        """The context file."""
        if self._config is None:
            self._config = load_config(self.environ)
            exposed = self._config.exposed_mode()
            if exposed is not None:
                self.out.error(
                    f"warning: {self._config.path} is readable by others (mode {exposed:04o}); "
                    f"chmod 600 {self._config.path}"
                )
        return self._config

    @property
    def settings(self) -> Settings:
        """Flags, environment and context file, merged."""
        if self._settings is None:
            self._settings = resolve(
                self.config,
                self.environ,
                server=self.flags.server or "",
                token_file=self.flags.token_file or "",
                project=self.flags.project or "",
                context=self.flags.context or "",
                output=self.flags.output or "",
            )
        return self._settings

    @property
    def out(self) -> Output:
        """Standard output in the asked format, and messages."""
        if self._output is None:
            columns = [name.strip() for name in (self.flags.columns or "").split(",")]
            self._output = Output(
                "json" if self.flags.json else self._asked_output(),
                columns=[name for name in columns if name],
                headers=not self.flags.no_headers,
                quiet=bool(self.flags.quiet),
            )
        return self._output

    @property
    def client(self) -> Client:
        """The signed-in connection. Raises CliError when there is no server or token."""
        if self._client is None:
            if not self.settings.token:
                raise CliError(
                    "not signed in"
                    + (f" to {self.settings.server}" if self.settings.server else ""),
                    Exit.AUTH,
                    hint="gpuaas login --server URL",
                )
            self._client = self.connect(self.settings.server, self.settings.token)
        return self._client

    @property
    def wait(self) -> bool:
        """Whether to wait for the outcome; --timeout alone asks for it as well."""
        return bool(self.flags.wait) or self.flags.timeout is not None

    @property
    def wait_s(self) -> float:
        """How long to wait, in seconds."""
        return values.duration(self.flags.timeout) if self.flags.timeout else DEFAULT_WAIT_S

    @property
    def may_ask(self) -> bool:
        """Whether a question can be put to a person."""
        return not self.flags.no_input and sys.stdin.isatty() and self.out.stderr.isatty()

    def connect(self, server: str, token: str = "", **options: Any) -> Client:
        """A connection to `server` with this invocation's request id and tracing."""
        if not server:
            raise UsageError("which server?", hint="--server URL or GPUAAS_SERVER")
        if not server.startswith(("http://", "https://")):
            raise UsageError(f"{server!r} is not an http or https address")
        return Client(
            server,
            token,
            request_id=self.flags.request_id or "",
            ca_file=self.settings.ca_file,
            user_agent=f"gpuaas-cli/{VERSION}",
            trace=self._trace,
            notice=self.out.say,
            sleep=self.sleep,
            **options,
        )

    def project(self) -> str:
        """The project to act in: flag, environment, context, or the only one there is."""
        if self.settings.project:
            return self.settings.project
        projects = list(self.client.items("/projects", limit=10))
        if len(projects) == 1:
            return str(projects[0].get("slug") or projects[0]["id"])
        names = ", ".join(values.text(p.get("slug")) for p in projects)
        raise UsageError(
            f"which project? (known: {names or 'none'})",
            hint="-p PROJECT, or gpuaas context set --project PROJECT",
        )

    def confirm(self, question: str, *, yes: bool) -> None:
        """Go on only with consent. Raises UsageError when refused or when nobody can answer."""
        if yes:
            return
        if not self.may_ask:
            raise UsageError(f"{question} Add --yes to confirm.")
        if self.ask(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
            raise UsageError("nothing was changed")

    def ask(self, prompt: str) -> str:
        """A line typed by the person; the prompt goes to standard error."""
        self.out.stderr.write(prompt)
        self.out.stderr.flush()
        try:
            return input()
        except EOFError as error:
            raise UsageError("no answer was given") from error

    def with_factor(self, call: Callable[[str | None], Json], code: str | None) -> Json:
        """The call's answer; where the server wants a second factor, a person is asked for it."""
        try:
            return call(code)
        except ProblemError as refused:
            if refused.code != "second_factor_needed" or code or not self.may_ask:
                raise
            return call(self.ask("Code of your second factor: ").strip())

    def close(self) -> None:
        """Close what was opened."""
        if self._client is not None:
            self._client.close()

    def find(self, kind: Kind, name: str, *, accept: Callable[[Json], bool] | None = None) -> Json:
        """The object of this kind that has the id or name, by listing.

        Raises CliError (not found), UsageError when several share the name.
        """
        wanted = strip_kind(kind, name)
        matches = []
        for item in self.client.items(kind.path):
            if str(item.get("id")) == wanted:
                return item
            if wanted in {item.get("name"), item.get("slug")}:
                matches.append(item)
        preferred = [item for item in matches if accept is None or accept(item)] or matches
        if len(preferred) == 1:
            return preferred[0]
        if preferred:
            ids = ", ".join(str(item.get("id")) for item in preferred)
            raise UsageError(f"several {kind.name}s are named {wanted!r}: {ids}", hint="use the id")
        raise CliError(f"no {kind.name} {wanted!r}", Exit.NOT_FOUND)

    def _asked_output(self) -> str:
        return self.flags.output or self.environ.get("GPUAAS_OUTPUT") or self._saved_output()

    def _saved_output(self) -> str:
        # Read apart from `settings`, since an unreadable context file needs an output too.
        try:
            config = load_config(self.environ)
        except CliError:
            return "table"
        name = self.flags.context or self.environ.get("GPUAAS_CONTEXT") or config.current
        saved = config.contexts.get(name)
        return (saved.output if saved else "") or "table"

    def _trace(self, level: int, line: str) -> None:
        if self.flags.debug or (self.flags.verbose and level == 1):
            self.out.error(values.clean(line))


def strip_kind(kind: Kind, reference: str) -> str:
    """The id or name in `reference`, which may be written `kind/ID`."""
    head, slash, tail = reference.partition("/")
    if not slash:
        return reference
    if head not in {kind.name, f"{kind.name}s", *kind.aliases}:
        raise UsageError(f"{reference!r} is not a {kind.name}")
    return tail


def kind_path(kind: Kind, reference: str) -> str:
    """The API path of one object of this kind."""
    return f"{kind.path}/{segment(strip_kind(kind, reference))}"
