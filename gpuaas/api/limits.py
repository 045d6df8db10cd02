"""How often may one principal call?  A token bucket each, shared through Valkey when it is there.

Losing Valkey loses no request: each process then counts for itself, which is looser by the
number of processes. Hosts' messages are counted so at all times.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

import redis
from django.conf import settings

from gpuaas.api import errors
from gpuaas.kernel import clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """``quota`` requests may come at once; they grow back evenly over ``window_s`` seconds.

    ``shared``: counted over all processes; otherwise each counts what it answers.
    """

    name: str
    quota: int
    window_s: int
    shared: bool = True


API = Policy("api", 3000, 60)
ACCESS = Policy("access", 60, 60)
ANONYMOUS = Policy("anonymous", 600, 60)
JOIN = Policy("agent", 1200, 60)
# A host asks twice in fifteen seconds: asking Valkey each time would cost more than it protects.
AGENT = Policy("agent", 1200, 60, shared=False)


@dataclass(frozen=True, slots=True)
class Spent:
    """What is left after one request, and in how many seconds there is more."""

    policy: Policy
    allowed: bool
    remaining: int
    wait_s: int

    def headers(self) -> dict[str, str]:
        """RateLimit-Policy and RateLimit, as the IETF draft writes them."""
        policy = self.policy
        return {
            "RateLimit-Policy": f'"{policy.name}";q={policy.quota};w={policy.window_s}',
            "RateLimit": f'"{policy.name}";r={self.remaining};t={self.wait_s}',
        }


_TAKE = """
local now = redis.call('TIME')
local at = now[1] * 1000 + math.floor(now[2] / 1000)
local quota, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000
local kept = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = tonumber(kept[1]) or quota
left = math.min(quota, left + (at - (tonumber(kept[2]) or at)) * quota / window)
local taken = 0
if left >= 1 then taken = 1 end
if left >= quota / 2 and left >= tonumber(ARGV[3]) then taken = tonumber(ARGV[3]) end
left = left - taken
redis.call('HSET', KEYS[1], 'left', tostring(left), 'at', tostring(at))
redis.call('PEXPIRE', KEYS[1], window * 2)
return {taken, tostring(left)}
"""


class Buckets:
    """The buckets of this process, and the way to the shared ones."""

    RETRY_SHARED_S = 10.0
    MOST_LOCAL = 10_000
    AHEAD, AHEAD_OF, AHEAD_S = 8, 300, 1.0
    """While at least half is left, up to 8 are taken at once, one in 300 of the quota, and spent
    here within a second: a busy program's calls do not each ask Valkey. What is not spent in time
    is lost, which only a bucket that is more than half full pays."""

    def __init__(self, url: str) -> None:
        self._lock = threading.Lock()
        self._local: dict[str, tuple[float, float]] = {}
        self._ahead: dict[str, tuple[int, float, float]] = {}
        self._shared_again_at = 0.0
        self._client = redis.Redis.from_url(
            url, socket_timeout=0.25, socket_connect_timeout=0.25, retry=None
        )
        self._take: Any = self._client.register_script(_TAKE)

    def spend(self, policy: Policy, principal: str) -> Spent:
        """Take one request out of the principal's bucket; never raises."""
        key = f"gpuaas:rate:{policy.name}:{principal}"
        left = self._spend_shared(policy, key) if policy.shared else None
        if left is None:
            left = self._spend_local(policy, key)
        taken, rest = left
        per_request = policy.window_s / policy.quota
        wait = 0.0 if rest >= 1 else (1 - rest) * per_request
        return Spent(policy, taken, int(rest), max(1, round(wait + 0.5)) if wait else 0)

    def give_back(self, policy: Policy, principal: str) -> None:
        """Put back what was taken in the name of a principal who did not ask; not where shared."""
        key = f"gpuaas:rate:{policy.name}:{principal}"
        with self._lock:
            left, at = self._local.get(key, (float(policy.quota), clock.monotonic()))
            self._local[key] = (min(float(policy.quota), left + 1), at)

    def _spend_shared(self, policy: Policy, key: str) -> tuple[bool, float] | None:
        now = clock.monotonic()
        spent = self._spend_ahead(key, now)
        if spent is not None:
            return spent
        if now < self._shared_again_at:
            return None
        ahead = max(1, min(self.AHEAD, policy.quota // self.AHEAD_OF))
        try:
            taken, left = self._take(keys=[key], args=[policy.quota, policy.window_s, ahead])
        except (redis.RedisError, OSError) as error:
            self._shared_again_at = clock.monotonic() + self.RETRY_SHARED_S
            log.warning("rate limits are counted per process: %s", type(error).__name__)
            return None
        if taken > 1:
            with self._lock:
                if len(self._ahead) > self.MOST_LOCAL:
                    self._ahead.clear()
                self._ahead[key] = (taken - 1, float(left), now + self.AHEAD_S)
        return bool(taken), float(left) + max(taken - 1, 0)

    def _spend_ahead(self, key: str, now: float) -> tuple[bool, float] | None:
        """One of those that were taken ahead, or None when there is none that is still good."""
        with self._lock:
            held, left, until = self._ahead.pop(key, (0, 0.0, 0.0))
            if not held or now >= until:
                return None
            if held > 1:
                self._ahead[key] = (held - 1, left, until)
        return True, left + held - 1

    def _spend_local(self, policy: Policy, key: str) -> tuple[bool, float]:
        now = clock.monotonic()
        with self._lock:
            if len(self._local) > self.MOST_LOCAL:
                self._local.clear()
            left, at = self._local.get(key, (float(policy.quota), now))
            left = min(float(policy.quota), left + (now - at) * policy.quota / policy.window_s)
            taken = left >= 1
            left -= 1 if taken else 0
            self._local[key] = (left, now)
        return taken, left


buckets = Buckets(settings.CONFIG.redis_url)


def refuse_if_spent(spent: Spent) -> None:
    """Raises RateLimited when the bucket was empty."""
    if not spent.allowed:
        raise errors.RateLimited(
            f"At most {spent.policy.quota} requests in {spent.policy.window_s} s.",
            policy=spent.policy.name,
            retry_after_s=spent.wait_s,
        )
