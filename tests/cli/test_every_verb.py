"""Does each verb that has no test of its own do what it says against the real control plane?"""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from gpuaas.kernel import clock
from placement.models import Allocation, AutomaticAction, Drift, MaintenanceWindow, NodeCapability
from placement.services.allocations import allocation_release
from tenants.models import Member, User
from tests.admission.test_policy_rules import BIG, BIG_TESTS
from tests.api.client import an_operator, token_of
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_parts_catalogue, a_tenant
from tests.cli.test_live import PASSWORD, Terminal
from tests.placement.test_health import tell
from tests.placement.test_identity import discovered, report_with

pytestmark = pytest.mark.django_db(transaction=True)


class Person(Terminal):
    """Somebody at a terminal who types whole lines."""

    def types(self, line: str, status: int = 0) -> str:
        """What a command says, having ended so."""
        result = self.run(*shlex.split(line))
        assert result.exit_code == status, (line, result.output)
        return f"{result.stdout}{result.stderr}"

    def reads(self, line: str) -> Any:
        """The answer to a command, as data."""
        return json.loads(self.types(f"{line} -o json -q"))


@pytest.fixture
def acme(db: None) -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def host(acme: TenantWorld) -> Host:
    return a_host("h1")


@pytest.fixture
def owner(acme: TenantWorld, live_server: LiveServer, tmp_path: Path) -> Person:
    return Person(live_server.url, tmp_path / "owner", token_of(acme.owner, acme))


@pytest.fixture
def operator(acme: TenantWorld, live_server: LiveServer, tmp_path: Path) -> Person:
    return Person(live_server.url, tmp_path / "operator", token_of(an_operator()))


@pytest.fixture
def second(acme: TenantWorld, live_server: LiveServer, tmp_path: Path) -> Person:
    return Person(live_server.url, tmp_path / "second", token_of(an_operator("b@platform.test")))


def blocked(acme: TenantWorld, host: Host, slots: int = 2) -> Allocation:
    """A lease whose cleanup was not proven."""
    row = acme.order(slots=slots, name="mine").allocation
    assert row is not None
    host.work()
    allocation_release(allocation_id=row.pk, reason="", actor=acme.actor)
    host.work(skip=("gpu_scrubbed",))
    return row


def test_people_of_a_tenant_and_what_they_are_let_do(
    acme: TenantWorld, owner: Person, operator: Person
) -> None:
    owner.types("member add grace@example.test --role viewer")
    grace = User.objects.create_user("ada@example.test", None)
    Member.objects.create(tenant=acme.tenant, user=grace, role="viewer")
    owner.types("member role ada@example.test --role admin")
    assert owner.reads("member describe ada@example.test")["role"] == "admin"
    assert len(owner.reads("member list")) == 2
    owner.types("member remove ada@example.test --yes")
    owner.types("invitation send new@example.test --role member")
    invited = {one["email"]: one["id"] for one in owner.reads("invitation list")}
    owner.types(f"invitation revoke {invited['new@example.test']}")
    owner.types("service-account create robot --role member")
    assert [one["name"] for one in owner.reads("service-account list")] == ["robot"]
    assert "gpuaas_" in owner.types("service-account token robot --name ci --expires-in-days 1")
    owner.types("service-account disable robot --yes --reason gone")
    assert owner.reads("tenant show")["slug"] == "acme"
    assert owner.reads("caps show") is not None
    assert owner.reads("entitlement list") is not None
    owner.types("deletion request --reason over --yes")
    assert operator.reads("deletion status acme")["tenant"]["state"] == "deleting"


def test_projects_data_and_wishes_of_a_tenant(owner: Person, operator: Person) -> None:
    owner.types("project create vision")
    assert owner.reads("project describe vision")["slug"] == "vision"
    owner.types("quota limit -p vision --class h100-slot --units 2 --reason share")
    owner.types("project delete vision --yes")
    owner.types("dataset declare corpus --zone a")
    owner.types("dataset declare corpus --zone b --preferred")
    assert owner.reads("dataset describe corpus")["zones"] == ["b"]
    assert len(owner.reads("dataset versions corpus")) == 2
    assert [one["name"] for one in owner.reads("dataset list")] == ["corpus"]
    owner.types("dataset retire corpus --yes")
    for verb in ("withdraw", "refuse", "approve"):
        owner.types("quota request --class h100-slot --units 70 --for more")
        (wish,) = owner.reads("quota list --state asked")
        assert owner.reads(f"quota describe {wish['id']}")["state"] == "asked"
        if verb == "withdraw":
            owner.types(f"quota withdraw {wish['id']}")
        elif verb == "refuse":
            operator.types(f"quota refuse {wish['id']} --reason no")
        else:
            operator.types(f"quota approve {wish['id']} --units 66 --reason some")
    assert [one["limit_milli"] for one in owner.reads("quota show")] == [66_000]


def test_the_clients_own_verbs(acme: TenantWorld, owner: Person) -> None:
    signed_in = owner.run(
        *shlex.split(f"login --context here --email {acme.owner.email} --password-file -"),
        stdin=f"{PASSWORD}\n",
    )
    assert signed_in.exit_code == 0, signed_in.output
    owner.types("context set --context here --default-output wide")
    assert "here" in owner.types("context list")
    owner.types("context use here")
    assert "here" in owner.types("context show here")
    assert "complete" in owner.types("completion bash")
    assert "no capacity now" in owner.types("help exit-codes")
    assert "GPUAAS_TOKEN" in owner.types("help environment")


def test_a_workload_from_its_submission_to_its_end(
    acme: TenantWorld, host: Host, owner: Person
) -> None:
    owner.types("workload submit web --kind service --sku h100.slice --slots 1")
    host.work()
    assert [one["name"] for one in owner.reads("workload list")] == ["web"]
    assert owner.reads("workload describe web")["replicas"] == 1
    assert "capacity" in owner.types("workload explain web")
    owner.types("workload scale web --replicas 2")
    owner.types("workload batch-size web 8")
    owner.types("workload sharing web none")
    owner.types("workload priority web 1")
    host.work()
    owner.types("workload move web")
    (request, *_) = owner.reads("request list")
    assert owner.reads(f"request describe {request['id']}")["id"] == request["id"]
    assert "capacity" in owner.types(f"request explain {request['id']}")
    (operation, *_) = owner.reads("operation list")
    assert operation["id"] in owner.types(f"operation describe {operation['id']}")
    owner.types("workload stop web --yes")


def test_operators_let_tenants_in_and_out(acme: TenantWorld, operator: Person) -> None:
    for slug in ("in", "out"):
        a_tenant(slug, approve=False)
    operator.types("tenant approve in --reason paid")
    operator.types("tenant reject out --reason spam")
    assert operator.reads("tenant describe in")["state"] == "active"
    operator.types("entitlement catalogue in listed --reason some")
    operator.types("entitlement grant in h100.slice --reason sold")
    assert [one["sku"] for one in operator.reads("entitlement list in")] == ["h100.slice"]
    operator.types("entitlement revoke in h100.slice --reason over")
    operator.types("caps set in --cap allocations=3 --reason agreed")
    assert operator.reads("caps show in")["allocations"] == 3
    window = operator.reads("break-glass open in --reason 'ticket 4711: a bill' --minutes 5")
    assert [one["id"] for one in operator.reads("break-glass list")] == [window["id"]]
    operator.types(f"break-glass end {window['id']}")
    assert "administrator" in operator.types("operator list")
    operator.types("tenant delete in --reason closed --yes")


def test_operators_share_and_lend_quota(acme: TenantWorld, operator: Person) -> None:
    operator.types("cohort create lab --title Lab")
    operator.types("cohort assign acme --cohort lab --reason share")
    operator.types("cohort limit lab --class h100-slot --borrow 2 --reason little")
    assert operator.reads("cohort describe lab")["tenants"] == ["acme"]
    assert [one["name"] for one in operator.reads("cohort list")] == ["lab"]
    operator.types(
        "burst create acme --name night --class h100-slot --extra 2 "
        "--opens 2099-01-01T00:00:00Z --closes 2099-01-01T06:00:00Z --reason cheap"
    )
    (burst,) = operator.reads("burst list acme")
    operator.types(f"burst end {burst['id']} --reason done")
    operator.types("cohort assign acme --reason alone")
    operator.types("cohort delete lab --yes")


def test_an_envelope_is_previewed_confirmed_and_given_up(
    acme: TenantWorld, host: Host, operator: Person
) -> None:
    wish = "acme --class h100-slot --nominal 70 --from 2099-01-01T00:00:00Z"
    seen = operator.reads(f"envelope preview {wish}")["digest"]
    acme.order(slots=1)
    stale = operator.types(f"envelope schedule {wish} --seen {seen} --reason more", status=5)
    assert "error: preview_stale" in stale
    seen = operator.reads(f"envelope preview {wish}")["digest"]
    operator.types(f"envelope schedule {wish} --seen {seen} --reason more")
    waiting = [v for v in operator.reads("envelope versions acme") if v["applied_at"] is None]
    operator.types(f"envelope cancel {waiting[0]['id']} --reason not")


def test_a_tier_is_sold_changed_and_given(acme: TenantWorld, operator: Person) -> None:
    operator.types("tier create gold --title Gold --term priority_band=10 --reason sell")
    assert {"gold", "standard"} <= {one["name"] for one in operator.reads("tier list")}
    assert operator.reads("tier describe gold")["name"] == "gold"
    seen = operator.reads("tier-terms preview gold --term priority_band=20")["digest"]
    change = "gold --term priority_band=20 --reason dear"
    operator.types(f"tier-terms change {change} --seen {seen}")
    assert len(operator.reads("tier versions gold")) == 2
    seen = operator.reads("tier preview acme gold")["digest"]
    assert operator.reads(f"tier assign acme gold --seen {seen} --reason bought")["tier"] == "gold"


def test_a_rule_is_written_tried_out_switched_on_and_off(
    acme: TenantWorld, host: Host, operator: Person, tmp_path: Path
) -> None:
    file = tmp_path / "rule.json"
    written = {"name": "small", "expression": BIG, "message": "At most four.", "tests": BIG_TESTS}
    file.write_text(json.dumps(written))
    rule = operator.reads(f"policy create --file {file}")["id"]
    assert [one["id"] for one in operator.reads("policy list")] == [rule]
    operator.types(f"policy dry-run {rule} --last 10")
    operator.types(f"policy activate {rule} --reason now --yes")
    assert operator.reads(f"policy describe {rule}")["state"] == "active"
    operator.types(f"policy retire {rule} --reason over --yes")


def test_terms_weights_storage_and_room(acme: TenantWorld, host: Host, operator: Person) -> None:
    operator.types("storage declare fast --kind nvme --zone a --reason bought")
    assert [one["name"] for one in operator.reads("storage list")] == ["fast"]
    operator.types("storage retire fast --reason sold")
    seen = operator.reads("placement-terms preview sku h100.slice --alone wiring")["digest"]
    terms = f"--alone wiring --seen {seen} --reason promise"
    operator.types(f"placement-terms set sku h100.slice {terms}")
    assert operator.reads("placement-terms list")
    assert operator.reads("placement-terms describe sku h100.slice")
    weights = "--gap 1 --fragment 2 --stranded 3 --broken 4"
    operator.types(f"scoring set {weights} --reason tried")
    assert operator.reads("scoring list")
    assert operator.reads("fragmentation list")
    assert operator.reads("fragmentation describe h100.slice")
    operator.types("defrag allow default --moves 4 --reason calm")
    assert operator.reads("defrag policies")
    assert "room already" in operator.types("defrag plan h100.slice --slots 8")
    run = f"defrag run h100.slice --slots 8 --seen {'0' * 64} --reason room"
    assert "error: defrag_" in operator.types(run, status=5)


def test_tenants_are_kept_apart(acme: TenantWorld, operator: Person) -> None:
    globex = a_tenant("globex")
    members = f"--tenant acme --tenant {globex.tenant.pk} --reason competitors"
    look = operator.reads(f"separation set rivals {members} --dry-run")
    assert (look["added"], look["together"]) == (["acme", "globex"], [])
    assert operator.reads("separation list") == []
    made = operator.reads(f"separation set rivals {members} --seen {look['digest']}")
    assert {one["slug"] for one in made["tenants"]} == {"acme", "globex"}
    stale = operator.types(f"separation set rivals {members} --seen {look['digest']}", status=5)
    assert "preview_stale" in stale
    assert "acme globex" in operator.types("separation list --columns TENANTS")
    assert operator.reads("separation show rivals")["reason"] == "competitors"
    operator.types("separation remove rivals --reason merged")
    assert operator.reads("separation list") == []


def test_stock_is_laid_in_and_sold(acme: TenantWorld, host: Host, operator: Person) -> None:
    operator.types("pool create west --title West --reason opened")
    assert {"default", "west"} == {one["name"] for one in operator.reads("pool list")}
    operator.types("family create l40s-10 --slots 10 --gpu-model L40S")
    (family,) = (one for one in operator.reads("family list") if one["name"] == "l40s-10")
    assert (family["slots"], family["nodes"]) == (10, 0)
    operator.types("image create debian-13 --shape gpu_slice --shape baremetal --username debian")
    assert "debian-13" in [one["name"] for one in operator.reads("image list")]
    operator.types("image retire debian-13 --reason old --yes")
    assert "debian-13" not in [one["name"] for one in operator.reads("image list")]
    draft = "sku create l40s --shape gpu_slice --family l40s-10 --pool west --class l40s-slot"
    made = operator.reads(f"{draft} --slots-max 10 --units 0.5 --price-hour 1.25")
    assert (made["state"], made["units_milli"], made["price_hour_micro"]) == (
        "draft",
        500,
        1_250_000,
    )
    assert operator.reads("sku publish l40s --reason ready")["state"] == "published"
    assert operator.reads("sku price l40s --price-hour 2")["hour_micro"] == 2_000_000
    assert operator.reads("sku retire l40s --reason over --yes")["state"] == "retired"
    assert "is no price" in operator.types("sku price l40s --price-hour 1,50", status=2)
    assert operator.reads("sku rename l40s --title L40S --description big")["title"] == "L40S"
    assert operator.reads("pool rename west --title Annex --reason moved")["title"] == "Annex"
    renamed = operator.reads("family rename l40s-10 --title L40S --gpu-model 'NVIDIA L40S'")
    assert (renamed["title"], renamed["gpu_model"]) == ("L40S", "NVIDIA L40S")
    assert operator.reads("pool uses west") == [{"what": "skus", "now": 0, "ever": 1}]
    assert operator.reads("family uses l40s-10") == [{"what": "skus", "now": 0, "ever": 1}]
    assert "stock_in_use" in operator.types("pool remove west --yes", status=5)
    assert operator.reads("sku uses l40s") == []
    operator.types("sku remove l40s --yes")
    assert operator.reads("family retire l40s-10 --reason old --yes")["retired_at"]
    operator.types("family remove l40s-10 --yes")
    assert operator.reads("pool retire west --reason old --yes")["retired_at"]
    operator.types("pool remove west --yes")
    assert "west" not in [one["name"] for one in operator.reads("pool list")]


def test_a_hosts_fitness_is_judged_and_decided(host: Host, operator: Person) -> None:
    tell(host, 64)
    assert "xid" in operator.types("node xids h1 -o json")
    (error,) = operator.reads("node xids h1")
    assert (error["xid"], error["policy"]) == (64, "repair")
    uuid = error["gpu_uuid"]
    assert "gpu_needs_repair" in operator.types("node evidence h1")
    operator.types(f"node lift-health h1 --gpu {uuid} --reason looked")
    operator.types("node demote h1 --capability slices --reason risers")
    operator.types("node promote h1 --capability slices --reason mended")
    row = NodeCapability.objects.get(node=host.node, capability="slices")
    assert (row.state, row.decision) == ("promoted", "mended")
    operator.types("node evidence-give h1 --check burn_in --verdict pass --reason loaded")
    for line in ("node identity h1", "node telemetry h1", "node describe h1", "node tasks h1"):
        operator.types(line)


def test_a_host_comes_is_set_apart_and_goes(host: Host, operator: Person) -> None:
    operator.types("node create h2")
    assert "token" in operator.types("node join-token h2 -o json")
    operator.types("node discover h1")
    discovered(host, report_with(host))
    assert "nothing_to_approve" in operator.types("node approve h1 --reason again", status=5)
    operator.types("node maintain h1 --reason fans")
    operator.types("node restore h1 --reason done")
    operator.types("node quarantine h1 --reason smoke")
    operator.types("node restore h1 --reason none")
    operator.types("node drain h1 --reason out")
    operator.types("node move h1 --reason out")
    operator.types("card replace h1 7 --reason burnt")
    assert [one["slot_index"] for one in operator.reads("card list h1")] == [7]
    assert "card_not_seen" in operator.types("card approve h1 7 --reason now", status=5)
    operator.types("card cancel h1 7 --reason found")
    operator.types("node retire h1 --reason old")


def test_a_slot_is_cut(acme: TenantWorld, operator: Person) -> None:
    a_parts_catalogue()
    a_host("h1", parts=("mig", "share"))
    operator.types("node cut h1 0 mig --reason small")
    assert "mig" in operator.types("node describe h1 -o json")


def test_maintenance_is_planned_told_and_ended(
    acme: TenantWorld, host: Host, owner: Person, operator: Person
) -> None:
    acme.order(slots=1, name="mine")
    starts = clock.now() + timedelta(days=2)
    when = (
        f"--from {starts:%Y-%m-%dT%H:%M:%SZ} --to {starts + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    )
    operator.types(f"maintenance plan --node h1 {when} --dry-run")
    operator.types(f"maintenance plan --node h1 {when} --reason firmware")
    (window,) = operator.reads("maintenance list --node h1")
    operator.types(f"maintenance announce {window['id']} --reason soon")
    (notice,) = owner.reads("notices list --unread")
    owner.types(f"notices acknowledge {notice['id']}")
    early = operator.types(f"maintenance end {window['id']} --reason done", status=5)
    assert "error: transition_refused" in early
    operator.types(f"maintenance cancel {window['id']} --reason later")
    assert MaintenanceWindow.objects.get().state == "cancelled"


def test_differences_and_held_actions_are_decided(host: Host, operator: Person) -> None:
    rows = [
        Drift.objects.create(
            node=host.node,
            kind=kind,
            subject=kind,
            severity="high",
            actor="operator",
            detail="x",
            state="open",
            last_seen_at=clock.db_now(),
        )
        for kind in ("vm_unknown", "residue")
    ]
    operator.types(f"drift accept {rows[0].pk} --reason ours")
    refused = operator.types(f"drift remove {rows[1].pk} --reason away", status=5)
    assert "error: drift_not_removable" in refused
    operator.types("breaker set default --percent 5 --floor 1 --window 600 --reason calm")
    node = host.fresh()
    held = AutomaticAction.objects.create(
        pool=node.pool, node=node, kind="quarantine", reason="device_health"
    )
    operator.types(f"breaker allow {held.pk} --reason fine")
    operator.types(f"breaker reject {held.pk} --reason no")
    held.refresh_from_db()
    assert held.state == "rejected"


def test_an_override_is_refused_withdrawn_and_approved_by_another(
    acme: TenantWorld, host: Host, operator: Person, second: Person
) -> None:
    row = blocked(acme, host)
    operator.types(f"override ask {row.pk} --reason swapped")
    assert "second_person_needed" in operator.types(
        f"override approve {row.pk} --reason me", status=4
    )
    assert "not_the_asker" in second.types(f"override withdraw {row.pk} --reason no", status=5)
    second.types(f"override refuse {row.pk} --reason look")
    operator.types(f"override ask {row.pk} --reason swapped")
    operator.types(f"override withdraw {row.pk} --reason mistake")
    for verb, who in (("refuse", second), ("withdraw", operator), ("approve", second)):
        operator.types("slot override h1 0 --reason swapped")
        if verb == "refuse":
            who.types("slot refuse-override h1 0 --reason look")
        elif verb == "withdraw":
            who.types("slot withdraw-override h1 0 --reason mistake")
        else:
            who.types("slot approve-override h1 0 --reason ok")
    operator.types(f"override ask {row.pk} --reason swapped")
    second.types(f"override approve {row.pk} --reason ok")
    row.refresh_from_db()
    assert row.state == "released"


def test_a_blocked_cleanup_is_tried_again(acme: TenantWorld, host: Host, operator: Person) -> None:
    row = blocked(acme, host)
    operator.types(f"allocation retry-cleanup {row.pk} --reason repaired")
    host.work()
    row.refresh_from_db()
    assert row.state == "released"


def test_an_operators_role_is_changed_by_another(operator: Person, second: Person) -> None:
    operator.types("operator role b@platform.test viewer --reason less")
    assert User.objects.get(email="b@platform.test").operator_role == "viewer"


def test_what_hosts_need_is_previewed_set_and_burnt_in(host: Host, operator: Person) -> None:
    needs = "--need slices:iommu --need slices:driver=2592000 --need baremetal:driver"
    seen = operator.reads(f"readiness-terms preview h100x8 {needs}")["digest"]
    operator.types(f"readiness-terms set h100x8 {needs} --seen {seen} --reason agreed")
    assert operator.reads("readiness-terms list")
    assert operator.reads("readiness-terms describe h100x8")
    gone = operator.reads("readiness-terms preview-removal h100x8")["digest"]
    operator.types(f"readiness-terms remove h100x8 --seen {gone} --reason over")
    assert operator.reads("readiness-terms describe h100x8")["version"] == 0
    task = operator.reads("node burn-in h1 --duration 60 --reason new")
    assert (task["kind"], task["state"]) == ("node.burn_in", "pending")
    stopped = operator.reads("node burn-in-stop h1 --reason wrong")
    assert (stopped["id"], stopped["state"]) == (task["id"], "cancelled")
    operator.types("fragmentation parts")


@pytest.mark.usefixtures("own_key")
def test_the_key_that_signs_is_exchanged_and_taken_back(operator: Person) -> None:
    [old] = operator.reads("control-key list")
    new = operator.reads("control-key prepare --reason spring")
    assert (old["role"], new["role"]) == ("signing", "next")
    assert "control_key_missing" in operator.types(
        f"control-key switch {old['fingerprint']} --reason spring --yes", 5
    )
    operator.types(f"control-key switch {new['fingerprint']} --reason spring --yes")
    operator.types(f"control-key back {old['fingerprint']} --reason spring --yes")
    assert "control_key_believed" in operator.types(
        f"control-key retire {new['fingerprint']} --reason spring --yes", 5
    )
    operator.types(f"control-key retire {new['fingerprint']} --reason spring --yes --at-once")
    assert [key["fingerprint"] for key in operator.reads("control-key list")] == [
        old["fingerprint"]
    ]
