"""Do the kernel's commands say what they found, in words and in their exit code?"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command

from gpuaas.kernel import anchors, audits, clock, events, outbox, retention, workflow
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.audits import Finding
from gpuaas.kernel.chain import PLATFORM
from gpuaas.kernel.lifecycle import registered
from gpuaas.kernel.models import Delivery, Event, WorkflowRun
from gpuaas.kernel.workflow import Step, Wait
from tests.kernel.factories import sealed
from tests.kernel.runs import Script, begin


def ask(*words: str) -> tuple[int, str]:
    """Run a command; its exit code and what it said."""
    out = StringIO()
    try:
        call_command(*words, stdout=out, stderr=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def test_audits_end_with_what_they_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "_audits", {})
    audits.register("sound", list)
    assert ask("audits") == (0, "1 audits, 0 findings, 0 errors\n")
    audits.register("rotten", lambda: [Finding("double_claim", "slot 3", "two claims", {"n": 2})])
    code, said = ask("audits")
    assert (code, "rotten: double_claim: slot 3: two claims" in said) == (3, True)
    assert ask("audits", "--name", "sound")[0] == 0
    code, said = ask("audits", "--json")
    assert (code, json.loads(said)["facts"]) == (3, {"n": 2})

    def fail() -> list[Finding]:
        raise RuntimeError

    audits.register("broken", fail)
    code, said = ask("audits")
    assert (code, "broken: could not be asked" in said) == (1, True)
    with pytest.raises(CommandError, match="nobody"):
        ask("audits", "--name", "nobody")
    with pytest.raises(ValueError, match="twice"):
        audits.register("sound", fail)


@pytest.mark.django_db
def test_a_delivery_that_was_set_aside_is_found() -> None:
    assert audits.deliveries_set_aside() == []
    event = events.record(kind="kernel.test.happened", actor=SYSTEM)
    Delivery.objects.create(event=event, subscriber="ear", state="failed", last_error="ValueError")
    assert [f.code for f in audits.deliveries_set_aside()] == ["delivery_set_aside"]


@pytest.mark.django_db
def test_a_run_that_no_worker_looks_at_is_found(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    run = begin(define(Step("one", Script(Wait(60)))))
    at.advance(audits.LATE_S)
    assert audits.runs_left_alone() == []
    at.advance(1)
    assert [f.subject for f in audits.runs_left_alone()] == [f"run {run.pk}"]
    workflow.drive(run.pk)
    assert audits.runs_left_alone() == []


@pytest.mark.django_db(transaction=True)
def test_events_verify_ends_with_what_it_found(tmp_path: Path) -> None:
    heads = tmp_path / anchors.NAME
    events.record(kind="kernel.test.happened", actor=SYSTEM)
    assert sealed(1) == 1
    code, said = ask("events_verify", "--heads", str(heads))
    assert (code, said.startswith("1 events in 1 chains, 0 findings")) == (0, True)
    line = anchors.Head("2030", 9, PLATFORM, 7, bytes(32)).line()
    heads.write_text(line)
    code, said = ask("events_verify", "--heads", str(heads))
    assert (code, "chain_truncated" in said) == (3, True)


@pytest.mark.django_db
def test_lifecycle_pages_are_printed_and_compared(tmp_path: Path) -> None:
    assert ask("lifecycles_print", "--folder", str(tmp_path), "--check")[0] == 1
    assert ask("lifecycles_print", "--folder", str(tmp_path))[0] == 0
    assert ask("lifecycles_print", "--folder", str(tmp_path), "--check")[0] == 0
    assert len(list(tmp_path.glob("*.md"))) == len(registered())
    page = tmp_path / "tenant.md"
    assert "pending --> active: approve" in page.read_text()
    page.write_text(page.read_text().replace("approve", "wave through"))
    (tmp_path / "ghost.md").write_text("# ghost")
    code, said = ask("lifecycles_print", "--folder", str(tmp_path), "--check")
    assert (code, "tenant.md" in said, "ghost.md" in said) == (1, True, True)


@pytest.mark.django_db
def test_what_is_over_is_forgotten_and_history_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_kinds", {})
    monkeypatch.setattr(events, "_subscribers", {})
    outbox.subscribe("ear", {"kernel.test.happened": lambda event: None})
    with clock.use(clock.FakeClock(datetime.now(UTC) + timedelta(hours=1))) as fake:
        assert isinstance(fake, clock.FakeClock)
        events.record(kind="kernel.test.happened", actor=SYSTEM)
        outbox.sweep()
        Session.objects.create(session_key="old", session_data="", expire_date=fake.now())
        assert retention.sweep() == {"idempotency_keys": 0, "deliveries": 0, "sessions": 0}
        fake.advance(retention.DELIVERIES_KEPT.total_seconds() + 1)
        Session.objects.create(
            session_key="new", session_data="", expire_date=fake.now() + timedelta(days=1)
        )
        assert retention.sweep() == {"idempotency_keys": 0, "deliveries": 1, "sessions": 1}
    assert (Event.objects.count(), WorkflowRun.objects.count()) == (1, 0)
