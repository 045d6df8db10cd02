"""Which services does a test run stand on?

A PostgreSQL and a Valkey of its own, made when pytest starts, shared by its xdist workers
(each with a database of its own, made by pytest-django), removed when it ends. Several runs
may go on at the same time: nothing is shared between them.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import django
import pytest
from django.db import connections
from django.test import override_settings

from gpuaas.embedded import processes
from gpuaas.embedded.files import PASSABLE_FOLDER, private_folder
from gpuaas.embedded.keys import control_key_kept
from gpuaas.embedded.postgres import OWNER, Postgres, Roles
from gpuaas.embedded.valkey import Valkey
from gpuaas.kernel import notify
from tests import prepared

CLUSTER = "GPUAAS_TEST_CLUSTER"
PREFIX = "gpuaas-test-"


class Services:
    """The throw-away services of one pytest run."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.folder.chmod(PASSABLE_FOLDER if os.geteuid() == 0 else 0o700)
        # WhiteNoise warns about a missing folder, and a warning is an error here.
        (self.folder / "static").mkdir()
        (self.folder / "owner").write_text(str(os.getpid()), encoding="utf-8")
        kept = private_folder(self.folder / "secrets")
        port = processes.free_port()
        self.postgres = Postgres(
            self.folder,
            port=port,
            roles=Roles.kept_in(kept),
            log=self.folder / "log" / "postgres.log",
            durable=False,
        )
        self.valkey = Valkey(
            self.folder,
            port=processes.free_port(avoid=[port]),
            password=secrets.token_urlsafe(16),
            log=self.folder / "log" / "valkey.log",
        )
        control_key_kept(kept / "control_ed25519.pem")

    def start(self) -> None:
        """Starts both and points the environment at them, before Django reads its settings."""
        self.valkey.launch()
        os.environ.update(
            {
                "REDIS_URL": self.valkey.url,
                "GPUAAS_DATA_DIR": str(self.folder),
                "GPUAAS_SECRET_KEY": secrets.token_urlsafe(50),
            }
        )
        prepared.start(self.postgres, self.folder / "secrets")
        self.valkey.wait()
        os.environ.update(
            {
                CLUSTER: str(self.folder),
                # The owner makes the test databases; tests of row-level security SET ROLE.
                "DATABASE_URL": self.postgres.url(OWNER),
                "DATABASE_OWNER_URL": self.postgres.url(OWNER),
            }
        )

    def stop(self) -> None:
        """Ends both and removes every trace."""
        self.postgres.stop()
        self.valkey.stop()
        home = self.postgres.home()
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _remove_abandoned() -> None:
    """Folders of runs that were killed; their servers died with them."""
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/owner"):
        with suppress(OSError, ValueError):
            if not processes.alive(int(owner.read_text(encoding="utf-8"))):
                shutil.rmtree(owner.parent, ignore_errors=True)


SERVICES: Services | None = None
if CLUSTER not in os.environ:
    for name in [key for key in os.environ if key.startswith("GPUAAS_")]:
        del os.environ[name]
    _remove_abandoned()
    SERVICES = Services()
    try:
        SERVICES.start()
    except BaseException:
        SERVICES.stop()
        raise

os.environ["DJANGO_SETTINGS_MODULE"] = "gpuaas.settings"
# Now, since a conftest further down may import models while pytest is still collecting.
django.setup()
# The migrated database is there already; what is still to do for a copy of it is little.
connections["default"].settings_dict["TEST"]["TEMPLATE"] = prepared.TEMPLATE


def pytest_unconfigure(config: pytest.Config) -> None:
    """The run that made the services ends them; an xdist worker only used them."""
    if SERVICES is not None:
        SERVICES.stop()


@pytest.fixture(scope="session")
def services_folder() -> Path:
    """The data folder of this test run."""
    return Path(os.environ[CLUSTER])


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path that root's service account can reach, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gp-"))
    folder.chmod(PASSABLE_FOLDER if os.geteuid() == 0 else 0o700)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_key(tmp_path: Path, settings: Any) -> Path:
    """A signing key that may be rotated without anybody else's noticing.

    The database is rolled back after a test; a key's files, which all tests share, are not.
    """
    path = tmp_path / "control_ed25519.pem"
    control_key_kept(path)
    settings.CONFIG = replace(settings.CONFIG, control_key_path=path)
    return path


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """The process's listener ends before its database is removed."""
    yield
    notify.hub.stop()


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hashing a password is slow on purpose; tests make many people."""
    quick = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with override_settings(PASSWORD_HASHERS=quick):
        yield
