"""Do package, command line tool, API document and agent say the same version?"""

import tomllib

import yaml
from django.conf import settings

from gpuaas.version import VERSION
from nodeagent.protocol import AGENT_VERSION
from tests.architecture.tree import ROOT


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "gpuaas.version.VERSION"}
    document = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
    said = {
        document["info"]["version"],
        settings.SPECTACULAR_SETTINGS["VERSION"],
        AGENT_VERSION,
        VERSION,
    }
    assert said == {VERSION}
