"""Is a workload planned, run, changed and stopped from the portal, each with its decision?"""

from __future__ import annotations

from typing import Any

import pytest

from admission.models import Action, AdmissionRequest, Workload
from placement.models import Allocation
from tenants.services.datasets import dataset_declare
from tenants.services.storage import storage_declare
from tests.builders import OPERATOR
from tests.portal.conftest import World

FORM = {"kind": "job", "name": "train", "sku": "h100.slice", "slots": "1", "replicas": "2"}
NEW = "workloads/new/"
SMALL = {
    "parameters": "1000000000",
    "milli_bytes_per_parameter": "2000",
    "layers": "16",
    "kv_heads": "8",
    "head_dim": "64",
    "kv_bytes": "2",
    "context_tokens": "2048",
}


def run(world: World, once: str = "a", **changes: str) -> Any:
    """Send a filled plan."""
    return world.browser().send(world.url(NEW), {**FORM, **changes, "once": once})


def made(world: World) -> Workload:
    run(world)
    return Workload.objects.get(name="train")


def act(world: World, row: Workload, verb: str, once: str = "b", **fields: Any) -> Any:
    """Send the plan of one of the ways to change a workload."""
    fields["once"] = once
    return world.browser().send(world.url(f"workloads/{row.pk}/{verb}/"), fields)


def planned(world: World, row: Workload, verb: str, query: str, role: str = "owner") -> str:
    """What the plan beside the form says, and that nothing was written for it."""
    before = (AdmissionRequest.objects.count(), Allocation.objects.count())
    address = world.url(f"workloads/{row.pk}/{verb}/?{query}")
    answer = world.browser(role).get(address, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert (AdmissionRequest.objects.count(), Allocation.objects.count()) == before
    assert Workload.objects.get(pk=row.pk).generation == row.generation
    return " ".join(answer.content.decode().split())


def test_the_form_offers_kinds_of_storage_and_sends_what_was_chosen(world: World) -> None:
    storage_declare(name="lustre", kind="parallel", zones=["z1"], actor=OPERATOR)
    browser, address = world.browser(), world.url("workloads/new/")
    page = browser.get(address).content.decode()
    assert "reached from z1" in page
    query = {"kind": "job", "name": "j", "sku": "h100.slice", "slots": "1", "storage": "parallel"}
    far = browser.get(address, query).content.decode()
    assert "<dt>Storage</dt><dd>parallel</dd>" in far
    assert "forbidden_by_locality" in far
    assert 'id="send-plan"' not in far
    storage_declare(name="s3", kind="object", actor=OPERATOR)
    plan = browser.get(address, {**query, "storage": "object"}).content.decode()
    assert '<input type="hidden" name="storage" value="object">' in plan
    assert "--storage object" in plan
    gone = browser.get(address, {**query, "storage": "tape"}).content.decode()
    assert "storage_not_offered" in gone


def test_the_plan_beside_the_form_prices_all_replicas_and_writes_nothing(world: World) -> None:
    query = "&".join(f"{name}={value}" for name, value in FORM.items())
    page = world.browser().get(world.url(f"{NEW}?{query}"), headers={"HX-Request": "true"})
    html = page.content.decode()
    assert "fits now" in html
    assert "1 slot of" in html
    assert "gpuaas workload submit train --kind job" in html
    assert "<html" not in html
    assert not Workload.objects.exists()


def test_a_plan_that_does_not_fit_says_why_and_offers_to_wait(world: World) -> None:
    query = "&".join(f"{k}={v}" for k, v in {**FORM, "slots": "8"}.items())
    html = world.browser().get(world.url(f"{NEW}?{query}")).content.decode()
    assert "refused now" in html
    assert "wait=1" in html
    assert 'id="send-plan"' not in html


def test_a_form_sent_twice_runs_once(world: World) -> None:
    first, again = run(world), run(world)
    row = Workload.objects.get()
    assert first.headers["Location"] == world.url(f"workloads/{row.pk}/")
    assert again.headers["Location"] == first.headers["Location"]
    assert Allocation.objects.filter(workload=row).count() == 2


def test_a_refusal_leads_to_its_decision(world: World) -> None:
    answer = run(world, slots="8")
    request = AdmissionRequest.objects.get(state="denied")
    assert answer.headers["Location"] == world.url(f"requests/{request.pk}/")
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [("slots", "1e3"), ("replicas", "-1"), ("band", "x"), ("key", "x"), ("once", "")],
)
def test_a_wrong_field_is_named(world: World, field: str, value: str) -> None:
    answer = world.browser().send(world.url(NEW), {**FORM, "once": "a", field: value})
    assert answer.status_code == 400
    assert f"<code>/{'ssh_keys' if field == 'key' else field}</code>" in answer.content.decode()
    assert not Workload.objects.exists()


def test_its_page_shows_what_it_holds_and_the_last_decision(world: World) -> None:
    html = world.browser().get(world.url(f"workloads/{made(world).pk}/")).content.decode()
    assert "The last decision, gate by gate" in html
    assert html.count("train-") >= 2
    assert "Stop train" in html
    theirs = world.browser("viewer").get(world.url(f"workloads/{Workload.objects.get().pk}/"))
    assert "Stop train" not in theirs.content.decode()


@pytest.mark.parametrize(
    ("verb", "fields", "column", "value"),
    [
        ("scale", {"replicas": "1"}, "replicas", 1),
        ("sharing", {"mode": "none"}, "spec", "none"),
        ("priority", {"band": "200"}, "band", 200),
        ("stop", {"reason": "done"}, "state", "stopping"),
    ],
)
def test_each_change_is_decided_and_made(
    world: World, verb: str, fields: dict[str, str], column: str, value: object
) -> None:
    row = made(world)
    answer = act(world, row, verb, **fields)
    assert answer.headers["Location"] == world.url(f"workloads/{row.pk}/")
    now = getattr(Workload.objects.get(), column)
    assert (now["sharing"] if column == "spec" else now) == value


def test_a_model_is_given_another_batch_size(world: World) -> None:
    run(world, kind="model", batch_size="8", **SMALL)
    row = Workload.objects.get()
    act(world, row, "batch-size", batch_size="16")
    assert Workload.objects.get().batch_size == 16


def test_a_model_without_its_figures_is_refused_with_its_code(world: World) -> None:
    run(world, kind="model", batch_size="8")
    assert AdmissionRequest.objects.get(state="denied").code == "gpu_memory_unknown"


def test_a_refused_change_leads_to_its_decision_and_changes_nothing(world: World) -> None:
    row = made(world)
    answer = act(world, row, "scale", replicas="40")
    request = AdmissionRequest.objects.get(state="denied")
    assert answer.headers["Location"] == world.url(f"requests/{request.pk}/")
    assert Workload.objects.get().replicas == 2


def test_a_wrong_change_stays_beside_its_form(world: World) -> None:
    row = made(world)
    answer = act(world, row, "scale", replicas="0")
    assert answer.status_code == 400
    assert 'id="id_replicas_error"' in answer.content.decode()
    assert act(world, row, "explode").status_code == 404


def test_more_replicas_are_planned_with_gates_price_and_envelope_before_they_are_asked_for(
    world: World,
) -> None:
    html = planned(world, made(world), "scale", "replicas=3")
    assert "fits now" in html
    assert "2 → <strong>3</strong>" in html
    assert "1 slot of h100.slice" in html
    assert "<strong>quota</strong>" in html
    assert "4 → <b>5</b> of 64" in html
    assert "gpuaas workload scale train --replicas 3" in html
    assert '<input type="hidden" name="replicas" value="3">' in html


def test_fewer_replicas_are_planned_with_what_is_released(world: World) -> None:
    html = planned(world, made(world), "scale", "replicas=1")
    assert "can be done now" in html
    assert "train-2" in html
    assert "at once; data on their disks is gone" in html
    assert "The envelope has it back once the cleanup is proven." in html


def test_a_plan_that_would_be_refused_says_its_code_and_has_no_button(world: World) -> None:
    row = made(world)
    html = planned(world, row, "scale", "replicas=40")
    assert "refused now" in html
    assert "sku_unavailable" in html
    assert "38 allocations asked together, 3 fit now" in html
    assert 'id="send-plan"' not in html
    assert "Queue it" in planned(world, row, "scale", "replicas=40&wait=on")
    partly = planned(world, row, "scale", "replicas=40&partial=on")
    assert "2 → <strong>5</strong>" in partly
    act(world, row, "scale", replicas="40", partial="on")
    assert Workload.objects.get().replicas == 5
    assert "envelope_exceeded" in planned(world, Workload.objects.get(), "scale", "replicas=100")


def test_what_a_plan_says_is_what_the_act_decides(world: World) -> None:
    row = made(world)
    html = planned(world, row, "priority", "band=0")
    assert "band_not_allowed" in html
    act(world, row, "priority", band="0")
    assert AdmissionRequest.objects.get(state="denied").code == "band_not_allowed"
    assert "1 → <strong>200</strong>" in planned(world, row, "priority", "band=200")
    act(world, row, "priority", band="200", once="c")
    assert Workload.objects.get().band == 200


def test_a_move_is_planned_with_both_places_and_sent_twice_moves_once(world: World) -> None:
    row = made(world)
    html = planned(world, row, "placement", "zones=z1")
    assert "once the new ones run" in html
    assert "While both places stand, both count" in html
    first, again = (act(world, row, "placement", zones="z1") for _ in range(2))
    assert first.headers["Location"] == again.headers["Location"]
    assert AdmissionRequest.objects.filter(action=Action.PLACEMENT).count() == 1


def test_sharing_and_batch_sizes_are_planned_by_the_gates_that_decide_them(world: World) -> None:
    run(world, kind="model", batch_size="8", **SMALL)
    row = Workload.objects.get()
    assert "8 → <strong>16</strong>" in planned(world, row, "batch-size", "batch_size=16")
    assert "gpu_memory" in planned(world, row, "batch-size", "batch_size=1000000")
    assert "sharing_not_eligible" in planned(world, row, "sharing", "mode=shared")


def test_who_may_only_look_sees_the_plan_and_no_button(world: World) -> None:
    html = planned(world, made(world), "scale", "replicas=3", role="viewer")
    assert "may look but not change it" in html
    assert 'id="send-plan"' not in html


def test_a_form_that_cannot_be_understood_names_its_field_beside_the_plan(world: World) -> None:
    html = planned(world, made(world), "scale", "replicas=1e3")
    assert "<code>/replicas</code>" in html
    whole = world.browser().get(
        world.url(f"workloads/{Workload.objects.get().pk}/scale/?replicas=0")
    )
    assert 'id="id_replicas_error"' in whole.content.decode()
    assert act(world, Workload.objects.get(), "scale", replicas="3", once="").status_code == 400


def test_a_move_that_contradicts_its_data_is_refused_with_its_code(world: World) -> None:
    dataset_declare(
        tenant_id=world.acme.tenant.pk, name="far", zones=["nowhere"], actor=world.acme.actor
    )
    row = made(world)
    answer = act(world, row, "placement", zones="elsewhere", datasets=["far"])
    assert answer.status_code == 302
    assert AdmissionRequest.objects.get(state="denied").code == "locality_conflict"


def test_the_form_offers_how_close_replicas_are_and_the_plan_and_page_say_it(world: World) -> None:
    query = "kind=job&name=near&sku=h100.slice&replicas=2&together=zone&apart=1&own=apart"
    html = world.browser().get(world.url(f"workloads/new/?{query}")).content.decode()
    assert 'value="zone" selected' in html
    assert "within one zone, or none" in html
    assert "--together zone" in html
    assert "--apart" in html


def test_anothers_workload_is_not_there(world: World) -> None:
    row = made(world)
    theirs = world.browser().get(world.url(f"workloads/{row.pk}/", tenant="globex"))
    assert theirs.status_code == 404


def test_the_list_is_filtered_by_state_and_kind(world: World) -> None:
    made(world)
    browser = world.browser()
    assert "train" in browser.get(world.url("workloads/?kind=job")).content.decode()
    assert "Nothing like this" in browser.get(world.url("workloads/?kind=model")).content.decode()
