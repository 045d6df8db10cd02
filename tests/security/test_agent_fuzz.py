"""Does anything that a host may sign and send make the control plane fail?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpuaas.api import limits
from gpuaas.api.routes import routes
from tests.security.world import World, a_world, body_of

pytestmark = pytest.mark.django_db

ADDRESSES = [route for route in routes() if route.pattern.startswith("/agent/")]
TEXT = st.text(max_size=8) | st.sampled_from(["\x00", "\ud800", "A" * 300, "../..", "$(id)"])
PLAIN = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXT
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    free = limits.Spent(limits.AGENT, True, 1000, 0)
    monkeypatch.setattr(limits.Buckets, "spend", lambda self, policy, principal: free)
    return a_world()


@pytest.mark.parametrize("name", [route.name for route in ADDRESSES])
def test_a_bent_message_is_refused_and_never_fails(world: World, name: str) -> None:
    route = next(route for route in ADDRESSES if route.name == name)
    method, path = route.methods[0], world.path(route)
    good = body_of(route, method) or {}
    seen: set[int] = set()

    @settings(
        max_examples=60,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(member=st.sampled_from(sorted(good)), value=ANYTHING, whole=st.booleans())
    def send(member: str, value: Any, whole: bool) -> None:
        message = value if whole else {**good, member: value}
        # Surrogates and NaN go out as a careless encoder would send them.
        raw = json.dumps(message).encode()
        with transaction.atomic():
            answer = world.own_node.call(method, path, raw)
            transaction.set_rollback(True)
        seen.add(answer.status_code)
        assert answer.status_code < 500
        if answer.status_code >= 400:
            assert answer.json()["code"]

    send()
    assert 400 in seen
