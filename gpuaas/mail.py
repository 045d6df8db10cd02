"""Through which server does mail leave, and in whose name?  One address says it.

``smtp://user:password@host:port?from=gpuaas@example.org`` begins unencrypted and changes to TLS
(STARTTLS, RFC 3207); ``smtps://`` is encrypted from the first byte (RFC 8314). ``console:`` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from email.utils import parseaddr
from urllib.parse import parse_qsl, unquote, urlsplit

CONSOLE = "django.core.mail.backends.console.EmailBackend"
SMTP = "django.core.mail.backends.smtp.EmailBackend"
PORTS = {"smtp": 587, "smtps": 465}
OPTIONS = ("from", "starttls")
NAME = "GPUAAS_EMAIL_URL"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class MailAddressError(ValueError):
    """The address of the mail server cannot be understood; the text says which part."""


@dataclass(frozen=True, slots=True)
class Mail:
    """Where mail goes. The password is kept out of its text form."""

    backend: str
    sender: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    starttls: bool = False

    @classmethod
    def parse(cls, url: str) -> Mail:
        """Reads the address. Raises MailAddressError, which never repeats the password."""
        if url in ("", "console:", "console://"):
            return cls(CONSOLE, "gpuaas@localhost")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise MailAddressError(
                f"{NAME}: the host or port is not one; write it as smtps://host:465"
            ) from None
        if parts.scheme not in PORTS:
            raise MailAddressError(f"{NAME} starts with smtp://, smtps:// or is console:")
        if not parts.hostname:
            raise MailAddressError(f"{NAME} names no host after {parts.scheme}://")
        if parts.path not in ("", "/") or parts.fragment:
            raise MailAddressError(
                f"{NAME} has something after its host; write / ? # @ in a password as %2F %3F "
                "%23 %40"
            )
        options = _options(parts.query)
        if bool(parts.username) != bool(parts.password):
            raise MailAddressError(f"{NAME} has a user or a password, and needs both or neither")
        return cls(
            SMTP,
            sender=_sender(options.get("from", "")),
            host=parts.hostname,
            port=PORTS[parts.scheme] if port is None else port,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            tls=parts.scheme == "smtps",
            starttls=_starttls(parts.scheme, parts.hostname, options, bool(parts.password)),
        )


def _options(query: str) -> dict[str, str]:
    # A plus sign is a part of many mail addresses: it is no space here.
    options = dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True))
    strange = sorted(set(options) - set(OPTIONS))
    if strange:
        raise MailAddressError(f"{NAME} has the option {strange[0]!r}; known are from and starttls")
    return options


def _sender(text: str) -> str:
    _, address = parseaddr(text)
    name, at, domain = address.rpartition("@")
    if not (name and at and domain) or "\n" in text or "\r" in text:
        raise MailAddressError(f"{NAME} names no sender; add ?from=gpuaas@your-domain")
    return text


def _starttls(scheme: str, host: str, options: dict[str, str], secret: bool) -> bool:
    word = options.get("starttls", "yes")
    if word not in ("yes", "no"):
        raise MailAddressError(f"{NAME}: starttls is yes or no, not {word!r}")
    if scheme == "smtps":
        if "starttls" in options:
            raise MailAddressError(f"{NAME}: smtps:// is encrypted already; leave starttls out")
        return False
    if word == "no" and secret and host not in LOOPBACK:
        raise MailAddressError(f"{NAME}: starttls=no would send the password unencrypted")
    return word == "yes"
