"""Which provider do the sign-in tests come from?  One that runs beside them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from django.test import Client
from pytest_django import Settings

from gpuaas.config import OpenIdProvider
from gpuaas.embedded import processes
from gpuaas.identity.openid import providers

LAUNCHER = Path(__file__).with_name("provider.py")


@contextmanager
def running(*faults: str) -> Iterator[str]:
    """A provider's address while it runs."""
    port = processes.free_port()
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, str(LAUNCHER), str(port), *faults],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{address}/.well-known/openid-configuration").raise_for_status()
                break
            except httpx.HTTPError:
                assert process.poll() is None, "the provider ended"
                assert time.monotonic() < deadline, "the provider does not answer"
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="session")
def honest_provider() -> Iterator[str]:
    """One that keeps to the standard."""
    with running() as address:
        yield address


@pytest.fixture(scope="session")
def forging_provider() -> Iterator[str]:
    """One whose ID tokens carry a wrong signature."""
    with running("tamper") as address:
        yield address


def configure(settings: Settings, address: str, client_id: str = "gpuaas") -> None:
    """Let people sign in with the provider."""
    provider = OpenIdProvider(address, client_id, "a secret", "Example ID")
    settings.SOCIALACCOUNT_PROVIDERS = providers(provider)


@pytest.fixture
def provider(honest_provider: str, settings: Settings) -> str:
    """The configured provider's address."""
    configure(settings, honest_provider)
    return honest_provider


def consent(browser: Client, sub: str, *, begin: str = "/sign-in/with/openid/") -> str:
    """Go to the provider, sign in there, and return the address that it leads back to."""
    away = browser.get(begin)
    assert away.status_code == 302, away.content
    answer = httpx.post(away.headers["Location"], data={"sub": sub})
    assert answer.status_code == 302, answer.text
    back = urlsplit(answer.headers["Location"])
    return f"{back.path}?{back.query}"
