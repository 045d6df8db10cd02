"""Does the configuration refuse what it cannot understand, and say so?"""

import json
import re
from pathlib import Path

import pytest

from gpuaas.config import CHECKOUT, SETTINGS, Config, ConfigError, DatabaseAddress


def test_an_unknown_variable_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="GPUAAS_WEB_PROT; did you mean GPUAAS_WEB_PORT"):
        Config.from_env({"GPUAAS_WEB_PROT": "80"})


def test_a_variable_unlike_any_other_is_refused_without_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"GPUAAS_QQQQQQQQ$"):
        Config.from_env({"GPUAAS_QQQQQQQQ": "1"})


def test_the_command_line_tools_own_variables_are_left_alone(tmp_path: Path) -> None:
    config = Config.from_env(
        {"GPUAAS_TOKEN": "x", "GPUAAS_CLI_COLOR": "1", "GPUAAS_DATA_DIR": str(tmp_path)}
    )
    assert config.data_dir == tmp_path


def test_a_secret_comes_from_its_file_without_the_line_end(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("s3cret\n", encoding="utf-8")
    config = Config.from_env(
        {"GPUAAS_SECRET_KEY_FILE": str(secret), "GPUAAS_DATA_DIR": str(tmp_path)}
    )
    assert config.secret_key == "s3cret"
    assert "s3cret" not in repr(config)


def test_the_data_folder_may_be_named_in_a_file_like_any_other_setting(tmp_path: Path) -> None:
    (tmp_path / "where").write_text(f"{tmp_path}\n", encoding="utf-8")
    assert Config.from_env({"GPUAAS_DATA_DIR_FILE": str(tmp_path / "where")}).data_dir == tmp_path


def test_a_secret_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="both set"):
        Config.from_env({"REDIS_URL": "redis://x", "REDIS_URL_FILE": str(tmp_path / "url")})


def test_a_secret_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="GPUAAS_SECRET_KEY_FILE cannot be read"):
        Config.from_env({"GPUAAS_SECRET_KEY_FILE": str(tmp_path / "absent")})


@pytest.mark.parametrize("port", ["0", "65536", "-1", "8e3", "٣", "http"])
def test_a_port_out_of_range_is_refused(port: str) -> None:
    with pytest.raises(ConfigError, match="GPUAAS_WEB_PORT is a port number"):
        Config.from_env({"GPUAAS_WEB_PORT": port})


def test_a_flag_that_is_neither_yes_nor_no_is_refused() -> None:
    with pytest.raises(ConfigError, match="GPUAAS_DEBUG is yes or no"):
        Config.from_env({"GPUAAS_DEBUG": "maybe"})


def test_the_public_address_is_a_host_that_is_answered_to_and_an_origin_of_forms() -> None:
    config = Config.from_env({"GPUAAS_PUBLIC_URL": "https://gpus.example.org/"})
    assert config.public_url == "https://gpus.example.org"
    assert config.allowed_hosts == ("127.0.0.1", "localhost", "[::1]", "gpus.example.org")
    assert config.csrf_trusted_origins == ("https://gpus.example.org",)
    shouted = Config.from_env({"GPUAAS_PUBLIC_URL": "HTTPS://GPUs.Example.org"})
    assert shouted.csrf_trusted_origins == config.csrf_trusted_origins, "as browsers send it"
    said = Config.from_env(
        {
            "GPUAAS_PUBLIC_URL": "https://gpus.example.org:8443",
            "GPUAAS_ALLOWED_HOSTS": "a.example, b.example",
            "GPUAAS_CSRF_TRUSTED_ORIGINS": "https://a.example",
        }
    )
    assert said.allowed_hosts == ("a.example", "b.example")
    assert said.csrf_trusted_origins == ("https://a.example",)


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("https://gpus.example.org:443", "https://gpus.example.org", "gpus.example.org"),
        ("http://gpus.example.org:80/", "http://gpus.example.org", "gpus.example.org"),
        ("https://gpus.example.org:80", "https://gpus.example.org:80", "gpus.example.org"),
        ("http://gpus.example.org:443", "http://gpus.example.org:443", "gpus.example.org"),
        ("https://[FD00::0:7]:443", "https://[fd00::7]", "[fd00::7]"),
        ("https://GPUs.B\u00fccher.example", "https://gpus.xn--bcher-kva.example", None),
    ],
)
def test_the_public_address_is_the_origin_that_browsers_send(
    url: str, origin: str, host: str | None
) -> None:
    config = Config.from_env({"GPUAAS_PUBLIC_URL": url})
    assert config.csrf_trusted_origins == (config.public_url,) == (origin,)
    assert config.allowed_hosts[-1] == (host or origin.removeprefix("https://"))


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),  # a setting, nothing listens
        ("::", "http://[::1]:8000"),
        ("fd00::7", "http://[fd00::7]:8000"),
        ("10.0.0.7", "http://10.0.0.7:8000"),
    ],
)
def test_without_one_the_public_address_is_where_the_web_listens(
    host: str, public: str, tmp_path: Path
) -> None:
    config = Config.from_env({"GPUAAS_WEB_HOST": host, "GPUAAS_DATA_DIR": str(tmp_path)})
    assert config.public_url == public
    assert public.removeprefix("http://").removesuffix(":8000") in config.allowed_hosts


@pytest.mark.parametrize(
    "url",
    [
        "gpus.example.org",
        "ftp://gpus.example.org",
        "https://",
        "https://gpus.example.org/portal",
        "https://ada@gpus.example.org",
        "https://gpus.example.org:port",
        "https://gpus.example.org?x=1",
        "https://[::1",
        "https://[fe80::1%eth0]",
        "https://gpus example.org",
        "https://gpus.example.org\tx",
        "https://gpus_one.example.org",
        "https://gpus.\u00fc .example",
    ],
)
def test_a_public_address_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match=r"GPUAAS_PUBLIC_URL .* as https://gpus\.example\.org"):
        Config.from_env({"GPUAAS_PUBLIC_URL": url})


def test_a_trusted_proxy_is_an_address_or_a_network() -> None:
    config = Config.from_env({"GPUAAS_TRUSTED_PROXIES": "10.0.0.7, fd00::/8"})
    assert [str(network) for network in config.trusted_proxies] == ["10.0.0.7/32", "fd00::/8"]
    assert Config.from_env({}).trusted_proxies == ()
    with pytest.raises(ConfigError, match=r"GPUAAS_TRUSTED_PROXIES .*10\.0\.0\.7/8"):
        Config.from_env({"GPUAAS_TRUSTED_PROXIES": "10.0.0.7/8"})


def test_every_setting_stands_on_the_page_of_settings() -> None:
    page = (CHECKOUT / "docs" / "settings.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `([A-Z_]+)`", page, re.MULTILINE))
    others = {"DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL"}
    assert told == SETTINGS | others


def test_what_the_embedded_services_left_is_used_until_the_environment_says_otherwise(
    tmp_path: Path,
) -> None:
    (tmp_path / "run").mkdir()
    left = {"database_url": "postgresql://a@h/one", "database_owner_url": "postgresql://o@h/one"}
    (tmp_path / "run" / "services.json").write_text(json.dumps(left), encoding="utf-8")
    env = {"GPUAAS_DATA_DIR": str(tmp_path)}
    assert Config.from_env(env).database_owner.user == "o"
    config = Config.from_env(env | {"DATABASE_URL": "postgresql://b@h/two"})
    assert (config.database.user, config.database_owner.name) == ("b", "two")


def test_what_was_not_given_is_listed(tmp_path: Path) -> None:
    config = Config.from_env({"GPUAAS_DATA_DIR": str(tmp_path), "REDIS_URL": "redis://x"})
    assert config.assumed == ("DATABASE_URL", "GPUAAS_SECRET_KEY")


def test_a_database_address_is_taken_apart() -> None:
    address = DatabaseAddress.parse("postgresql://u:p%40ss@db:6432/name?sslmode=require")
    assert address == DatabaseAddress(
        "db", 6432, "u", "p@ss", "name", options=(("sslmode", "require"),)
    )
    assert DatabaseAddress.parse("postgres:///name?host=/run/pg").host == "/run/pg"


@pytest.mark.parametrize("url", ["mysql://h/n", "postgresql://h", "postgresql://h:x/n", "n"])
def test_a_database_address_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        DatabaseAddress.parse(url)
