"""How does the agent speak to the control plane: signed, in sequence, on the server's clock?"""

from __future__ import annotations

import asyncio
import json
from typing import Any, TypeVar

import httpx

from nodeagent.answers import Answer, cause_of, is_taken, refusal_in
from nodeagent.clock import Clock
from nodeagent.identity import AgentHome, Identity
from nodeagent.protocol import (
    AGENT_VERSION,
    API_PREFIX,
    HEADER_AGENT_VERSION,
    HEADER_CREDENTIAL,
    HEADER_SEQUENCE,
    HEADER_SIGNATURE,
    HEADER_TIMESTAMP,
    MAX_BODY_BYTES,
    CompleteRequest,
    FailRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaseAnswer,
    LeaseRequest,
    Message,
    ObservedReport,
    Problem,
    RenewAnswer,
    RenewRequest,
    TelemetryReport,
    WireError,
    load_json,
    request_signing_bytes,
)
from nodeagent.signing import sign

_CORRECTIONS = 3
# For one request and its whole answer: one that comes in drops never ends by itself.
_MOST_S = 60.0
_Answer = TypeVar("_Answer", bound=Message)


class Unreachable(Exception):
    """No usable answer came: the request may or may not have been carried out."""


class Refused(Exception):
    """The control plane answered with a problem. retry_after: seconds, when it says so.

    foreign: the answer is not in the control plane's form. A proxy between us, or one that stands
    in for it while it is away, has said so, and knows nothing of what was asked.
    """

    def __init__(
        self,
        status: int,
        problem: Problem,
        retry_after: float | None = None,
        *,
        foreign: bool = False,
    ) -> None:
        said = "not by the control plane" if foreign else problem.detail[:300]
        super().__init__(f"{status} {problem.code}" + (f": {said}" if said else ""))
        self.status = status
        self.code = problem.code
        self.problem = problem
        self.retry_after = retry_after
        self.foreign = foreign

    @property
    def passing(self) -> bool:
        """Whether the same request may be taken later."""
        return self.status >= 500 or self.status in (408, 425, 429)


class ControlPlane:
    """One node's connection. Requests go out one after the other, since sequences must rise.

    most_s: how long one request may take with its whole answer.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        server: str,
        home: AgentHome,
        clock: Clock,
        *,
        most_s: float = _MOST_S,
    ) -> None:
        self._http = http
        self._server = server.rstrip("/")
        self._home = home
        self._clock = clock
        self._most_s = most_s
        self._turn = asyncio.Lock()
        self._offset = 0.0

    def server_now(self) -> int:
        """Unix seconds on the server's clock, as learnt from its answers."""
        return int(self._clock.now() + self._offset)

    def learn_time(self, server_time: int) -> None:
        """Correct the offset; whole seconds, so a smaller difference is left alone."""
        offset = server_time - self._clock.now()
        if abs(offset - self._offset) >= 1.5:
            self._offset = offset

    async def join(self, request: JoinRequest) -> JoinAnswer:
        """Exchange a one-time token. Raises Unreachable or Refused."""
        body = _body(request)
        headers = {"Content-Type": "application/json", HEADER_AGENT_VERSION: AGENT_VERSION}
        async with self._turn:
            response = await self._send("POST", f"{API_PREFIX}/join", body, headers)
        answer = _parse(JoinAnswer, response)
        self.learn_time(answer.server_time)
        return answer

    async def renew(self, request: RenewRequest) -> RenewAnswer:
        """Renew the credential. Raises Unreachable or Refused."""
        response = await self._signed("POST", f"{API_PREFIX}/credential:renew", request)
        answer = _parse(RenewAnswer, response)
        self.learn_time(answer.server_time)
        return answer

    async def lease(self, request: LeaseRequest) -> LeaseAnswer:
        """Ask for work. Raises Unreachable or Refused."""
        response = await self._signed("POST", f"{API_PREFIX}/tasks:lease", request)
        answer = _parse(LeaseAnswer, response)
        self.learn_time(answer.server_time)
        return answer

    async def heartbeat(self, task_id: str, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Renew a task's lease. Raises Unreachable or Refused."""
        path = f"{API_PREFIX}/tasks/{task_id}/heartbeat"
        return _parse(HeartbeatAnswer, await self._signed("POST", path, request))

    async def deliver(self, task_id: str, verb: str, body: dict[str, Any]) -> None:
        """Send a result (verb `complete` or `fail`). Raises Unreachable or Refused."""
        message = CompleteRequest if verb == "complete" else FailRequest
        request: Message = message.from_json(body)
        _taken(await self._signed("POST", f"{API_PREFIX}/tasks/{task_id}/{verb}", request))

    async def observed(self, report: ObservedReport) -> None:
        """Send what is on the host. Raises Unreachable or Refused."""
        _taken(await self._signed("PUT", f"{API_PREFIX}/nodes/self/observed", report))

    async def telemetry(self, report: TelemetryReport) -> None:
        """Send what was measured. Raises Unreachable or Refused."""
        _taken(await self._signed("POST", f"{API_PREFIX}/nodes/self/telemetry", report))

    async def _signed(self, method: str, path: str, message: Message) -> Answer:
        """Sign and send; a rejected sequence or clock is corrected from the answer and tried again.

        Each try is a new message with a new sequence, so a repeated request can never be taken for
        a replay of the first.
        """
        body = _body(message)
        async with self._turn:
            for correction in range(_CORRECTIONS):
                identity = self._home.identity
                if identity is None:
                    raise Unreachable("the node has no credential")
                headers = self._headers(identity, method, path, body)
                try:
                    return await self._send(method, path, body, headers)
                except Refused as refusal:
                    if correction + 1 == _CORRECTIONS or not self._corrected(refusal):
                        raise
        raise AssertionError("unreachable: the last correction raises")

    def _headers(self, identity: Identity, method: str, path: str, body: bytes) -> dict[str, str]:
        sequence, timestamp = self._home.next_sequence(), self.server_now()
        signed = request_signing_bytes(method, path, sequence, timestamp, body, AGENT_VERSION)
        return {
            "Content-Type": "application/json",
            HEADER_AGENT_VERSION: AGENT_VERSION,
            HEADER_CREDENTIAL: identity.credential_id,
            HEADER_SEQUENCE: str(sequence),
            HEADER_TIMESTAMP: str(timestamp),
            HEADER_SIGNATURE: sign(self._home.key, signed),
        }

    def _corrected(self, refusal: Refused) -> bool:
        problem = refusal.problem
        if refusal.code == "replayed_message" and problem.last_sequence is not None:
            self._home.raise_sequence(problem.last_sequence)
            return True
        if refusal.code == "clock_skew" and problem.server_time is not None:
            self._offset = problem.server_time - self._clock.now()
            return True
        return False

    async def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        try:
            async with asyncio.timeout(self._most_s):
                answer = await self._ask(method, path, body, headers)
        except TimeoutError as error:
            detail = f"no whole answer within {self._most_s:g} seconds"
            raise Unreachable(detail) from error
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise Unreachable(cause_of(error)) from error
        if answer.status >= 400:
            problem, after, foreign = refusal_in(answer)
            raise Refused(answer.status, problem, after, foreign=foreign)
        if not is_taken(answer):
            kind = answer.headers.get("Content-Type", "nothing named")[:100]
            raise Unreachable(f"answered {answer.status} with {kind}: not the control plane's")
        return answer

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """One exchange; of an answer beyond the protocol's bound no more is read."""
        # Packed, a small answer could be a large one.
        sent = {**headers, "Accept-Encoding": "identity"}
        url, content = self._server + path, bytearray()
        async with self._http.stream(method, url, content=body, headers=sent) as response:
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_BODY_BYTES:
                    raise Unreachable(f"the answer is over {MAX_BODY_BYTES} bytes")
            return Answer(response.status_code, response.headers, bytes(content))


def _body(message: Message) -> bytes:
    return json.dumps(message.to_json(), separators=(",", ":")).encode()


def _parse(kind: type[_Answer], answer: Answer) -> _Answer:
    try:
        return kind.from_json(load_json(answer.content))
    except WireError as error:
        raise Unreachable(f"the answer does not follow the protocol: {error}") from error


def _taken(answer: Answer) -> None:
    """The control plane acknowledges with an object; a page that says 200 is somebody else's."""
    try:
        told = load_json(answer.content)
    except WireError as error:
        raise Unreachable(f"the answer does not follow the protocol: {error}") from error
    if not isinstance(told, dict):
        raise Unreachable("the answer does not follow the protocol: expected an object")
