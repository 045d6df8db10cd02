"""What does this process need to know from outside before it can start?

Everything comes from the environment, once, into one frozen value. A secret may be given
as ``NAME_FILE`` (a path) instead of ``NAME``. What is not given is read from the data
folder, where the embedded services leave their addresses and secrets, so that
``manage.py`` works beside a running ``make demo`` without any variable set.
"""

import difflib
import ipaddress
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import idna

from gpuaas.mail import Mail, MailAddressError
from gpuaas.proxies import Network, networks_of
from gpuaas.version import checked_out

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # what is listened on, not named
DEFAULT_PORTS = {"http": 80, "https": 443}
HOST = re.compile(r"[a-z0-9.-]+")  # what Django answers to, besides IPv6
CHECKOUT = Path(__file__).resolve().parent.parent

# Read by Config.from_env below. Each may also be given as NAME_FILE.
SETTINGS = frozenset(
    {
        "GPUAAS_ALLOWED_HOSTS",
        "GPUAAS_COMMIT",
        "GPUAAS_CONTROL_KEY",
        "GPUAAS_CSRF_TRUSTED_ORIGINS",
        "GPUAAS_DATA_DIR",
        "GPUAAS_DEBUG",
        "GPUAAS_DEMO",
        "GPUAAS_EMAIL_URL",
        "GPUAAS_LOG_LEVEL",
        "GPUAAS_OIDC_CLIENT_ID",
        "GPUAAS_OIDC_CLIENT_SECRET",
        "GPUAAS_OIDC_ISSUER",
        "GPUAAS_OIDC_NAME",
        "GPUAAS_PUBLIC_URL",
        "GPUAAS_SECRET_KEY",
        "GPUAAS_TRUSTED_PROXIES",
        "GPUAAS_WEB_HOST",
        "GPUAAS_WEB_PORT",
    }
)
# Read by the runner, the tests and the tools, which share a shell with this process.
ELSEWHERE = frozenset(
    {
        "GPUAAS_KEPT_BY",
        "GPUAAS_PG_BIN",
        "GPUAAS_TEST_CLUSTER",
        "GPUAAS_VALKEY_BIN",
    }
)
# The command line tool and the node agent have variables of their own.
FOREIGN_PREFIXES = ("GPUAAS_CLI_", "GPUAAS_AGENT_", "GPUAAS_BENCH_")
FOREIGN = frozenset(
    {
        "GPUAAS_CONFIG",
        "GPUAAS_CONTEXT",
        "GPUAAS_OUTPUT",
        "GPUAAS_PROJECT",
        "GPUAAS_SERVER",
        "GPUAAS_TOKEN",
        "GPUAAS_TOKEN_FILE",
    }
)

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})


class ConfigError(Exception):
    """The environment cannot be understood; the message says which variable and why."""


@dataclass(frozen=True)
class DatabaseAddress:
    """A PostgreSQL address, taken apart as Django's DATABASES wants it."""

    host: str
    port: int
    user: str
    password: str
    name: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, url: str) -> "DatabaseAddress":
        """Reads ``postgresql://user:password@host:port/name?option=value``.

        A socket directory is given as ``?host=/folder``. Raises ConfigError.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"postgres", "postgresql"}:
            raise ConfigError(
                f"a database address starts with postgresql://, not {parts.scheme or 'nothing'!r}"
            )
        try:
            port = parts.port or 5432
        except ValueError as error:
            raise ConfigError(f"the database address has no usable port: {error}") from None
        name = unquote(parts.path.lstrip("/"))
        if not name:
            raise ConfigError("the database address names no database")
        options = dict(parse_qsl(parts.query))
        host = options.pop("host", "") or unquote(parts.hostname or "")
        return cls(
            host=host,
            port=port,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            name=name,
            options=tuple(sorted(options.items())),
        )


@dataclass(frozen=True)
class OpenIdProvider:
    """Where people may also sign in, as the platform is known there."""

    issuer: str
    client_id: str
    client_secret: str
    name: str

    def __repr__(self) -> str:
        return f"OpenIdProvider(issuer={self.issuer!r}, client_id={self.client_id!r})"

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "OpenIdProvider | None":
        """Reads GPUAAS_OIDC_*; None when there is no issuer. Raises ConfigError."""
        issuer = _given(env, "GPUAAS_OIDC_ISSUER").rstrip("/")
        client_id = _given(env, "GPUAAS_OIDC_CLIENT_ID")
        if not issuer and not client_id:
            return None
        if not issuer or not client_id:
            raise ConfigError("GPUAAS_OIDC_ISSUER and GPUAAS_OIDC_CLIENT_ID go together")
        host = urlsplit(issuer).hostname or ""
        loopback = host in {"localhost", "::1"} or host.startswith("127.")
        if not issuer.startswith("https://") and not loopback:
            raise ConfigError("GPUAAS_OIDC_ISSUER starts with https://")
        return cls(
            issuer=issuer,
            client_id=client_id,
            client_secret=_given(env, "GPUAAS_OIDC_CLIENT_SECRET"),
            name=_given(env, "GPUAAS_OIDC_NAME") or host,
        )


@dataclass(frozen=True)
class Config:
    """The outside facts of one process. Secrets are kept out of its text form."""

    database_url: str
    database_owner_url: str
    redis_url: str
    data_dir: Path
    secret_key: str
    control_key_path: Path
    debug: bool
    demo: bool
    allowed_hosts: tuple[str, ...]
    csrf_trusted_origins: tuple[str, ...]
    web_host: str
    web_port: int
    public_url: str
    trusted_proxies: tuple[Network, ...]
    """Whose word is taken for whom they speak for."""
    mail: Mail
    log_level: str
    commit: str
    """Of which commit this is, as whoever built it says, else as it is checked out."""
    open_id: OpenIdProvider | None
    assumed: tuple[str, ...]
    """Names of variables that were not given and have only a stand-in value."""

    def __repr__(self) -> str:
        return f"Config(data_dir={str(self.data_dir)!r}, web={self.web_host}:{self.web_port})"

    @property
    def database(self) -> DatabaseAddress:
        """The address the running product connects to."""
        return DatabaseAddress.parse(self.database_url)

    @property
    def database_owner(self) -> DatabaseAddress:
        """The address migrations connect to."""
        return DatabaseAddress.parse(self.database_owner_url)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Config":
        """Reads the environment (or the mapping given). Raises ConfigError."""
        env = os.environ if environ is None else environ
        refuse_unknown(env)
        data_dir = data_dir_from(env)
        left = _left_by_embedded(data_dir)
        assumed: list[str] = []

        def value(name: str, embedded: str, stand_in: str) -> str:
            given = _given(env, name) or left.get(embedded, "")
            if not given:
                assumed.append(name)
            return given or stand_in

        database_url = value(
            "DATABASE_URL", "database_url", "postgresql://gpuaas_platform@127.0.0.1:5432/gpuaas"
        )
        owner_url = _given(env, "DATABASE_OWNER_URL")
        if not owner_url and not _given(env, "DATABASE_URL"):
            owner_url = left.get("database_owner_url", "")
        secret_key = value("GPUAAS_SECRET_KEY", "secret_key", secrets.token_urlsafe(50))
        web_host = _given(env, "GPUAAS_WEB_HOST") or "127.0.0.1"
        web_port = _port(
            "GPUAAS_WEB_PORT", _given(env, "GPUAAS_WEB_PORT") or left.get("web_port", "8000")
        )
        control_key = _given_path(env, "GPUAAS_CONTROL_KEY")
        here = f"http://{_named(EVERYWHERE.get(web_host, web_host))}:{web_port}"
        public = _public_url(_given(env, "GPUAAS_PUBLIC_URL") or here)
        hosts = tuple(dict.fromkeys((*LOOPBACK, _host_of(public))))
        return cls(
            database_url=database_url,
            database_owner_url=owner_url or database_url,
            redis_url=value("REDIS_URL", "redis_url", "redis://127.0.0.1:6379/0"),
            data_dir=data_dir,
            secret_key=secret_key,
            control_key_path=control_key or data_dir / "secrets" / "control_ed25519.pem",
            debug=_flag(env, "GPUAAS_DEBUG"),
            demo=_flag(env, "GPUAAS_DEMO"),
            allowed_hosts=_words(env, "GPUAAS_ALLOWED_HOSTS", hosts),
            csrf_trusted_origins=_words(env, "GPUAAS_CSRF_TRUSTED_ORIGINS", (public,)),
            web_host=web_host,
            web_port=web_port,
            public_url=public,
            trusted_proxies=_networks(env, "GPUAAS_TRUSTED_PROXIES"),
            mail=_mail(_given(env, "GPUAAS_EMAIL_URL")),
            log_level=(_given(env, "GPUAAS_LOG_LEVEL") or "INFO").upper(),
            commit=_given(env, "GPUAAS_COMMIT").strip() or checked_out(CHECKOUT) or "unknown",
            open_id=OpenIdProvider.from_env(env),
            assumed=tuple(assumed),
        )


def data_dir_from(env: Mapping[str, str]) -> Path:
    """The data folder: ``GPUAAS_DATA_DIR``, else ``var`` in the checkout. Raises ConfigError."""
    return Path(_given(env, "GPUAAS_DATA_DIR") or CHECKOUT / "var").absolute()


def refuse_unknown(env: Mapping[str, str]) -> None:
    """Raises ConfigError for a GPUAAS_ variable nobody reads, naming the nearest that is read."""
    known = SETTINGS | ELSEWHERE | FOREIGN
    for name in sorted(env):
        if not name.startswith("GPUAAS_") or name.startswith(FOREIGN_PREFIXES):
            continue
        if name in known or name.removesuffix("_FILE") in SETTINGS:
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"nothing reads the variable {name}{hint}")


def _given(env: Mapping[str, str], name: str) -> str:
    """The variable, or the stripped content of the file that NAME_FILE points at, or ''."""
    direct, path = env.get(name, ""), env.get(f"{name}_FILE", "")
    if direct and path:
        raise ConfigError(f"{name} and {name}_FILE are both set; give one of them")
    if not path:
        return direct
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}_FILE cannot be read: {error}") from None


def _given_path(env: Mapping[str, str], name: str) -> Path | None:
    """For a secret that is used as a file: only NAME_FILE has a meaning."""
    if env.get(name):
        raise ConfigError(f"{name} is a key file; give its path as {name}_FILE")
    path = env.get(f"{name}_FILE", "")
    return Path(path).absolute() if path else None


def _mail(url: str) -> Mail:
    try:
        return Mail.parse(url.strip())
    except MailAddressError as error:
        raise ConfigError(str(error)) from None


def _flag(env: Mapping[str, str], name: str) -> bool:
    word = _given(env, name).strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ConfigError(f"{name} is yes or no, not {word!r}")


def _port(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"{name} is a port number from 1 to 65535, not {text!r}")
    return int(text)


def _words(env: Mapping[str, str], name: str, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    words = tuple(word.strip() for word in _given(env, name).split(",") if word.strip())
    return words or otherwise


def _networks(env: Mapping[str, str], name: str) -> tuple[Network, ...]:
    try:
        return networks_of(_words(env, name, ()))
    except ValueError as error:
        raise ConfigError(
            f"{name} is a list of addresses and networks, as 10.0.0.7, 10.1.0.0/16: {error}"
        ) from None


def _public_url(text: str) -> str:
    """Where people and programs find this platform: scheme, host and port, and nothing after.

    As browsers name an origin, since it is compared with what they send: in small letters, a host
    of other letters in the ASCII that stands for it, and without the port that the scheme has.
    """
    url = text.strip().rstrip("/").lower()
    try:
        parts = urlsplit(url)
        named = parts.scheme in DEFAULT_PORTS and parts.hostname and parts.port != 0
        named = named and url == f"{parts.scheme}://{parts.netloc}" and "@" not in parts.netloc
        host = _ascii(parts.hostname or "")
    except ValueError:
        named = False
    if not named:
        raise ConfigError(
            "GPUAAS_PUBLIC_URL is where the platform is found, as https://gpus.example.org, "
            f"not {text!r}"
        )
    port = "" if parts.port in (None, DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{_named(host)}{port}"


def _ascii(host: str) -> str:
    """A host as it stands in a Host header. Raises ValueError where it cannot stand there."""
    if ":" in host and "%" not in host:
        return str(ipaddress.IPv6Address(host))
    name = host if host.isascii() else idna.encode(host, uts46=True).decode()
    if not HOST.fullmatch(name):
        raise ValueError(host)
    return name


def _host_of(url: str) -> str:
    """The host of an address, as a Host header names it."""
    return _named(urlsplit(url).hostname or "")


def _named(host: str) -> str:
    """A host as it stands in an address."""
    return f"[{host}]" if ":" in host else host


def _left_by_embedded(data_dir: Path) -> dict[str, str]:
    """What the embedded services wrote for processes started by hand; {} when they never ran."""
    path = data_dir / "run" / "services.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except PermissionError:
        # Another user's data folder: that user's services are not ours to use.
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is not an object")
    return {str(key): str(item) for key, item in found.items()}
