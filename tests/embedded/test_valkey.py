"""Does the private Valkey keep what it said it has, and keep strangers out?"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from gpuaas.embedded import processes
from gpuaas.embedded.valkey import Valkey, ValkeyError


def server_in(folder: Path, password: str = "open-sesame") -> Valkey:
    return Valkey(
        folder,
        port=processes.free_port(),
        password=password,
        log=folder / "log" / "valkey.log",
    )


@pytest.fixture
def server(short_folder: Path) -> Iterator[Valkey]:
    made = server_in(short_folder)
    made.start()
    yield made
    made.stop()


def test_what_was_acknowledged_survives_kill_minus_nine(server: Valkey) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.rpush("queue", *range(1000))
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    server.start()
    with redis.Redis.from_url(server.url) as client:
        assert client.llen("queue") == 1000


def test_it_never_evicts_and_refuses_strangers(server: Valkey) -> None:
    with redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
    with (
        redis.Redis(port=server.port) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()


def test_the_password_is_in_no_command_line_and_in_a_closed_file(server: Valkey) -> None:
    assert server.process is not None
    assert server.password not in processes.command_line(server.process.pid)
    config = server.home / "valkey.conf"
    assert oct(config.stat().st_mode & 0o777) == "0o600"


def test_a_server_of_an_earlier_run_is_ended_first(server: Valkey) -> None:
    later = server_in(server.home.parent)
    later.start()
    try:
        assert later.ready()
        assert server.ended()
    finally:
        later.stop()


def test_a_server_that_cannot_start_is_reported(server: Valkey, tmp_path: Path) -> None:
    second = Valkey(tmp_path, port=server.port, password="x", log=tmp_path / "valkey.log")
    with pytest.raises(ValkeyError, match="did not start"):
        second.start(timeout_s=10.0)
