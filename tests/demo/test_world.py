"""Does the demo's world fit together, and the topology files that it is made from?"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuaas.demo import fill, world
from gpuaas.demo.logins import FILE, logins_kept
from gpuaas.demo.story import hosts
from gpuaas.demo.world import FamilyPlan
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.slots import topology_report
from tests.topologies import FOLDERS


def test_there_are_three_tenants_and_twelve_hosts_from_five_topology_files() -> None:
    assert len(world.TENANTS) == 3
    assert len(world.HOSTS) == 12
    files = {world.family_of(host).topology for host in world.HOSTS}
    assert files == {path.name for path in FOLDERS[0].glob("*.xml")}
    assert len(files) == 5


@pytest.mark.parametrize("family", world.FAMILIES, ids=lambda family: family.name)
def test_a_family_has_as_many_slots_as_its_topology_file(family: FamilyPlan) -> None:
    report = topology_report(load_topology_file(family.topology_path), "host")
    assert len(report.slots) == family.slots
    exclusive = {slot.nic_mode.value for slot in report.slots} == {"exclusive"}
    assert exclusive is family.exclusive_nic


def test_the_story_knows_the_facts_of_every_file() -> None:
    assert set(hosts.FACTS) == {family.topology for family in world.FAMILIES}


def test_every_envelope_and_family_names_a_known_class_pool_and_tier() -> None:
    classes = {name for name, _ in world.CLASSES}
    assert {name for tenant in world.TENANTS for name, _ in tenant.envelope} <= classes
    assert {family.resource_class for family in world.FAMILIES} <= classes
    assert {family.pool for family in world.FAMILIES} <= {name for name, _ in world.POOLS}
    assert {tenant.tier for tenant in world.TENANTS} <= {tier[0] for tier in world.TIERS}


def test_every_lease_of_the_demo_names_what_its_world_has() -> None:
    skus = {f"{family.sku}-{kind}" for family in world.FAMILIES for kind in ("slice", "node")}
    skus |= {part.sku for family in world.FAMILIES for part in family.parts}
    projects = {(tenant.slug, name) for tenant in world.TENANTS for name in tenant.projects}
    for wish in (*fill.KEPT, fill.LEAKY, fill.ENDED, fill.QUEUED, fill.TOO_MUCH):
        assert wish.sku in skus
        assert (wish.tenant, wish.project) in projects


def test_nobody_has_two_accounts_and_owners_come_first() -> None:
    emails = [person.email for person in world.accounts()]
    assert len(emails) == len(set(emails))
    assert [tenant.owner.role for tenant in world.TENANTS] == ["owner"] * 3


def test_passwords_are_made_once_closed_to_others_and_completed_later(tmp_path: Path) -> None:
    first = logins_kept(tmp_path, ["one@example.test"])
    both = logins_kept(tmp_path, ["one@example.test", "two@example.test"])
    assert both["one@example.test"] == first["one@example.test"]
    assert len(set(both.values())) == 2
    assert min(len(password) for password in both.values()) >= 16
    assert oct((tmp_path / FILE).stat().st_mode & 0o777) == "0o600"
