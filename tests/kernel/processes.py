"""How does a test run one of the product's processes on its own database?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection


@contextmanager
def process(*command: str, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process of the product, on the test's database; ended with the block."""
    base, _, _ = settings.CONFIG.database_url.rpartition("/")
    url = f"{base}/{connection.settings_dict['NAME']}"
    env = {**os.environ, "DATABASE_URL": url, **environment}
    with log.open("wb") as out:
        running = subprocess.Popen([sys.executable, *command], env=env, stdout=out, stderr=out)
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(15)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait(5)
