"""Is the address of the mail server understood, and a wrong one told apart in words?"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuaas.config import Config, ConfigError
from gpuaas.mail import CONSOLE, SMTP, Mail


def mail(url: str, folder: Path) -> Mail:
    return Config.from_env({"GPUAAS_EMAIL_URL": url, "GPUAAS_DATA_DIR": str(folder)}).mail


@pytest.mark.parametrize("url", ["", "console:", "console://"])
def test_without_a_server_mail_is_printed(url: str, tmp_path: Path) -> None:
    assert mail(url, tmp_path) == Mail(CONSOLE, "gpuaas@localhost")


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "starttls"),
    [
        ("smtp://mx.example.org?from=a@b.org", "mx.example.org", 587, False, True),
        ("smtps://u:p@mx.example.org?from=a@b.org", "mx.example.org", 465, True, False),
        ("smtp://mx.example.org:25?from=a@b.org&starttls=no", "mx.example.org", 25, False, False),
        ("smtp://u:p@127.0.0.1:2525/?from=a@b.org&starttls=no", "127.0.0.1", 2525, False, False),
        ("smtps://[2001:db8::1]:4650?from=a@b.org", "2001:db8::1", 4650, True, False),
    ],
)
def test_a_server_is_reached_as_its_address_says(
    url: str, host: str, port: int, tls: bool, starttls: bool, tmp_path: Path
) -> None:
    found = mail(url, tmp_path)
    assert found.backend == SMTP
    assert (found.host, found.port, found.tls, found.starttls) == (host, port, tls, starttls)


def test_user_password_and_sender_are_decoded(tmp_path: Path) -> None:
    found = mail(
        "smtps://ada%40example.org:p%40ss%2Fw%3Ard@mx.example.org?from=GPU%20<a+b@c.org>", tmp_path
    )
    assert (found.user, found.password) == ("ada@example.org", "p@ss/w:rd")
    assert found.sender == "GPU <a+b@c.org>"
    assert "p@ss" not in repr(found)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mx.example.org", "starts with smtp://"),
        ("http://mx.example.org?from=a@b.org", "starts with smtp://"),
        ("smtp://?from=a@b.org", "names no host"),
        ("smtp://mx:x?from=a@b.org", "host or port"),
        ("smtp://mx:70000?from=a@b.org", "host or port"),
        ("smtp://mx.example.org", "names no sender; add"),
        ("smtp://mx.example.org?from=nobody", "names no sender"),
        ("smtp://mx.example.org?from=a@b.org%0ABcc:x@y.org", "names no sender"),
        ("smtp://user@mx.example.org?from=a@b.org", "both or neither"),
        ("smtp://mx.example.org?from=a@b.org&tls=1", "option 'tls'"),
        ("smtp://mx.example.org?from=a@b.org&starttls=maybe", "yes or no"),
        ("smtps://mx.example.org?from=a@b.org&starttls=yes", "encrypted already"),
        ("smtp://u:s3cret@mx.example.org?from=a@b.org&starttls=no", "password unencrypted"),
        ("smtp://u:s3cret/x@mx.example.org?from=a@b.org", "host or port"),
        ("smtp://mx.example.org/x?from=a@b.org", "after its host"),
    ],
)
def test_a_wrong_address_says_which_part_is_wrong_and_no_secret(
    url: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        mail(url, tmp_path)
    assert says in str(refused.value)
    assert "GPUAAS_EMAIL_URL" in str(refused.value)
    assert "s3cret" not in str(refused.value)
