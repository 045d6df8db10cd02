"""Where is the server and who am I? The context file, the environment and the flags, merged.

Precedence: flag, then environment, then the context file.
"""

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpuaas.cli.problems import UsageError

FILE_MODE = 0o600
DIR_MODE = 0o700
DEFAULT_CONTEXT = "default"

ENVIRONMENT: dict[str, str] = {
    "GPUAAS_SERVER": "address of the control plane",
    "GPUAAS_TOKEN": "API token; prefer a file, since processes of the same user can read this",
    "GPUAAS_TOKEN_FILE": "file that holds the API token",
    "GPUAAS_PROJECT": "project to act in",
    "GPUAAS_CONTEXT": "context to use instead of the current one",
    "GPUAAS_CONFIG": "the context file, instead of $XDG_CONFIG_HOME/gpuaas/config.yaml",
    "GPUAAS_OUTPUT": "output format, as of -o",
    "NO_COLOR": "when set, no colour anywhere",
}


@dataclass
class Context:
    """One saved control plane and principal. Secrets live in `auth` only."""

    name: str
    server: str = ""
    tenant: str = ""
    project: str = ""
    ca_file: str = ""
    output: str = ""
    auth: dict[str, str] = field(default_factory=dict)

    def as_mapping(self) -> dict[str, Any]:
        """The shape kept in the file; empty members are left out."""
        values: dict[str, Any] = {
            "name": self.name,
            "server": self.server,
            "tenant": self.tenant,
            "project": self.project,
            "ca-file": self.ca_file,
            "output": self.output,
            "auth": self.auth,
        }
        return {key: value for key, value in values.items() if value}


@dataclass
class ConfigFile:
    """The context file as read; `save` replaces it in one step."""

    path: Path
    current: str = ""
    contexts: dict[str, Context] = field(default_factory=dict)

    def save(self) -> None:
        """Write atomically, readable by the owner only."""
        self.path.parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
        text = yaml.safe_dump(
            {
                "current-context": self.current,
                "contexts": [context.as_mapping() for context in self.contexts.values()],
            },
            sort_keys=False,
        )
        # mkstemp creates with 0600, so that the secret is never readable by others.
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".config-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, FILE_MODE)
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def exposed_mode(self) -> int | None:
        """The file's mode when others can read or write it, else None."""
        try:
            mode = stat.S_IMODE(self.path.stat().st_mode)
        except OSError:
            return None
        return mode if mode & 0o077 else None


def config_path(environ: Mapping[str, str]) -> Path:
    """The context file's place: GPUAAS_CONFIG, else the XDG folder, else ~/.config."""
    if environ.get("GPUAAS_CONFIG"):
        return Path(environ["GPUAAS_CONFIG"]).expanduser()
    base = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    root = Path(base) if base.startswith("/") else Path.home() / ".config"
    return root / "gpuaas" / "config.yaml"


def load_config(environ: Mapping[str, str]) -> ConfigFile:
    """Read the context file; a missing one is an empty one. Raises UsageError on a broken one."""
    path = config_path(environ)
    config = ConfigFile(path)
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return config
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    if raw is None:
        return config
    if not isinstance(raw, dict):
        raise UsageError(f"{path} is not a context file")
    config.current = _text(raw.get("current-context"))
    for entry in raw.get("contexts") or []:
        if not isinstance(entry, dict) or not _text(entry.get("name")):
            raise UsageError(f"{path} holds a context without a name")
        auth = entry.get("auth")
        context = Context(
            name=_text(entry.get("name")),
            server=_text(entry.get("server")),
            tenant=_text(entry.get("tenant")),
            project=_text(entry.get("project")),
            ca_file=_text(entry.get("ca-file")),
            output=_text(entry.get("output")),
            auth={str(k): _text(v) for k, v in auth.items()} if isinstance(auth, dict) else {},
        )
        config.contexts[context.name] = context
    return config


@dataclass(frozen=True)
class Settings:
    """What one invocation runs with, and where the server and token came from."""

    context_name: str
    server: str
    server_source: str
    token: str = field(repr=False)
    token_source: str
    project: str
    tenant: str
    output: str
    ca_file: str


def resolve(
    config: ConfigFile,
    environ: Mapping[str, str],
    *,
    server: str = "",
    token_file: str = "",
    project: str = "",
    context: str = "",
    output: str = "",
) -> Settings:
    """Merge flags (the keyword arguments), environment and file, in that order."""
    asked = context or environ.get("GPUAAS_CONTEXT", "")
    if asked and asked not in config.contexts:
        known = ", ".join(config.contexts) or "none yet"
        raise UsageError(f"no context named {asked!r} (known: {known})", hint="gpuaas login")
    name = asked or config.current
    saved = config.contexts.get(name, Context(name=name or DEFAULT_CONTEXT))
    server_value, server_source = _first(
        (server, "flag"), (environ.get("GPUAAS_SERVER"), "environment"), (saved.server, "context")
    )
    # A saved token belongs to the server it was made for and must not travel to another.
    own_server = not server_value or server_value.rstrip("/") == saved.server.rstrip("/")
    token, token_source = _token(token_file, environ, saved if own_server else None)
    if not token.isascii() or any(not character.isprintable() for character in token):
        raise UsageError(f"the token from the {token_source} is not a token")
    return Settings(
        context_name=saved.name,
        server=server_value,
        server_source=server_source,
        token=token,
        token_source=token_source,
        project=_first((project, ""), (environ.get("GPUAAS_PROJECT"), ""), (saved.project, ""))[0],
        tenant=saved.tenant,
        output=_first(
            (output, ""), (environ.get("GPUAAS_OUTPUT"), ""), (saved.output, ""), ("table", "")
        )[0],
        ca_file=saved.ca_file,
    )


def read_secret(path: str) -> str:
    """A secret from a file, or from standard input for "-", without its line end."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    secret = text.strip("\r\n \t")
    if not secret:
        raise UsageError(f"{'standard input' if path == '-' else path} holds nothing")
    return secret


def _token(token_file: str, environ: Mapping[str, str], saved: Context | None) -> tuple[str, str]:
    if token_file:
        return read_secret(token_file), "flag"
    if environ.get("GPUAAS_TOKEN"):
        return environ["GPUAAS_TOKEN"].strip(), "environment"
    if environ.get("GPUAAS_TOKEN_FILE"):
        return read_secret(environ["GPUAAS_TOKEN_FILE"]), "environment"
    if saved is None:
        return "", ""
    if saved.auth.get("type") == "token-file":
        return read_secret(saved.auth.get("path", "")), "context"
    return saved.auth.get("token", ""), "context" if saved.auth.get("token") else ""


def _first(*choices: tuple[str | None, str]) -> tuple[str, str]:
    for value, source in choices:
        if value:
            return value, source
    return "", ""


def _text(value: Any) -> str:
    return "" if value is None else str(value)
