"""Does this node belong to a control plane, and does its credential still hold?"""

from __future__ import annotations

import contextlib
import logging

from nodeagent.backend import Backend
from nodeagent.client import ControlPlane, Refused
from nodeagent.identity import AgentHome, Identity
from nodeagent.protocol import AGENT_VERSION, JoinRequest, RenewRequest
from nodeagent.signing import public_text

log = logging.getLogger("nodeagent")
_ASK_AGAIN_S = 10
_DOUBT_AGAIN_S = 600
_TOKEN_OF_NO_USE = (400, 401, 403, 409, 410, 422)


class Membership:
    """Joins once, renews at half of the credential's life, and joins anew when invited again."""

    def __init__(self, home: AgentHome, backend: Backend, control: ControlPlane) -> None:
        self._home = home
        self._backend = backend
        self._control = control
        self._waits = False
        self._asked_at = float("-inf")
        self._doubted_at = float("-inf")

    async def current(self) -> Identity | None:
        """Who this node is; None while it has neither joined nor been given a token.

        Raises Unreachable or Refused.
        """
        identity = self._home.identity
        if identity is None:
            return await self._join()
        return await self._renew_if_due(identity)

    def start_over(self, refusal: Refused) -> bool:
        """Whether a refusal means that the token which somebody has left should be used.

        Without one the credential is kept: the refusal may have been a mistake that passes.
        """
        by_name = refusal.status in (401, 403) and not refusal.foreign
        refused = by_name and self._home.identity is not None
        if not refused or self._home.join_token() is None:
            return False
        self._home.forget()
        return True

    async def renewed_key(self, identity: Identity) -> Identity:
        """A renewal ahead of time, since a task was signed by a key that is not known here.

        Given once in a while only: whoever sends such tasks must not wear out the disk. Raises
        Unreachable, and Refused where another time may do: then nobody knows yet what the task is
        worth, and it must not be refused.
        """
        now = self._control.server_now()
        if 0 <= now - self._asked_at < _ASK_AGAIN_S:
            return self._home.identity or identity
        try:
            answer = await self._control.renew(RenewRequest(public_text(self._home.key)))
        except Refused as refusal:
            if refusal.passing or refusal.foreign:
                raise
            self._asked_at = now
            log.warning("credential not renewed: %s", refusal.code)
            return identity
        self._asked_at = now
        return self._home.renewed(identity, answer)

    async def settled_key(self, identity: Identity) -> Identity:
        """The control plane's key asked for where the host's own root takes orders of others only.

        Keys rotate there and here one after the other, so the key that is known here may be the old
        one. Once in a while only. Raises Unreachable.
        """
        now = self._control.server_now()
        if await self._backend.believes(identity.control_public_key) is not False:
            self._doubted_at = float("-inf")
        elif not 0 <= now - self._doubted_at < _DOUBT_AGAIN_S:
            with contextlib.suppress(Refused):
                identity = await self.renewed_key(identity)
            self._doubted_at = now
        return identity

    async def _join(self) -> Identity | None:
        token = self._home.join_token()
        if token is None:
            self._say_what_is_waited_for()
            return None
        request = JoinRequest(
            token=token,
            public_key=public_text(self._home.key),
            boot_id=self._backend.boot_id(),
            hostname=self._backend.hostname,
            agent_version=AGENT_VERSION,
            facts=self._backend.facts(),
        )
        try:
            answer = await self._control.join(request)
        except Refused as refusal:
            if refusal.status in _TOKEN_OF_NO_USE and not refusal.foreign:
                self._home.set_aside_token(token)
            raise
        log.info("%s joined as %s", self._backend.hostname, answer.node_name)
        return self._home.joined(answer)

    def _say_what_is_waited_for(self) -> None:
        """Once: an agent that has not joined has nothing else to do, and must not seem well."""
        if not self._waits:
            self._waits = True
            place, name = self._home.token_path, self._backend.hostname
            log.warning(
                "%s has not joined: waiting for a token in %s (gpuaas node join-token)", name, place
            )

    async def _renew_if_due(self, identity: Identity) -> Identity:
        if self._control.server_now() < identity.renew_at:
            return identity
        try:
            answer = await self._control.renew(RenewRequest(public_text(self._home.key)))
        except Refused as refusal:
            unknown_here = refusal.status == 401 and not refusal.foreign
            if unknown_here or self._control.server_now() >= identity.expires_at:
                raise
            log.warning("credential not renewed: %s", refusal.code)
            return identity
        return self._home.renewed(identity, answer)
