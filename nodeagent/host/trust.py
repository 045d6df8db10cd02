"""By which way does the agent reach the control plane, and whom does it believe to be that?"""

from __future__ import annotations

import ssl

import certifi
import httpx

from nodeagent.host.config import ConfigError, HostConfig


def way_out(config: HostConfig) -> httpx.AsyncHTTPTransport:
    """The agent's connections. Nothing of the environment changes where they go.

    Raises ConfigError.
    """
    proxy = config.proxy or None
    return httpx.AsyncHTTPTransport(verify=trusted(config), proxy=proxy, trust_env=False)


def trusted(config: HostConfig) -> ssl.SSLContext:
    """Who may vouch for the control plane. Raises ConfigError when `agent.ca_file` is of no use.

    Without that setting: whom the system trusts, which is where operators put their own
    authority, and Mozilla's list, since not every Python finds the system's.
    """
    if config.ca_file is None:
        context = ssl.create_default_context(cafile=certifi.where())
        context.load_default_certs()
        return context
    try:
        return ssl.create_default_context(cafile=str(config.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"agent.ca_file, {config.ca_file}, must hold certificates as PEM that the agent may "
            f"read: {error}"
        ) from error
