"""When may a host be sold in a shape, by its evidence?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.domain.readiness import (
    BAREMETAL,
    CHECKS,
    DEFAULT,
    SLICES,
    Item,
    Requirement,
    judge,
    merged,
    renewal_at,
    takes_of,
)
from placement.domain.seen import firmware_in, from_discovery, from_report

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ALL = [Item(check, "pass", NOW - DAY) for check in CHECKS]


def without(check: str, *instead: Item) -> list[Item]:
    """Everything passed but one check."""
    return [item for item in ALL if item.check != check] + list(instead)


@pytest.mark.parametrize(
    ("said", "slices", "baremetal"),
    [
        (ALL, "ready", "ready"),
        ([], "missing", "missing"),
        (without("iommu"), "missing", "ready"),
        (without("iommu", Item("iommu", "fail", NOW - DAY)), "failed", "ready"),
        (without("iommu", Item("iommu", "unknown", NOW - DAY)), "missing", "ready"),
        (without("driver", Item("driver", "pass", NOW - 31 * DAY)), "expired", "expired"),
        (without("numa", Item("numa", "pass", NOW - DAY, expires_at=NOW)), "expired", "expired"),
        (
            without("driver", Item("driver", "pass", NOW - 900 * DAY, source="grandfathered")),
            "ready",
            "ready",
        ),
        ([*ALL, Item("iommu", "fail", NOW, device="0000:65:00.0")], "ready", "ready"),
        (without("runtime"), "ready", "ready"),
        (without("runtime", Item("runtime", "fail", NOW)), "failed", "ready"),
        (without("burn_in"), "ready", "ready"),
    ],
    ids=[
        "all checks hold",
        "nothing was said",
        "nobody spoke of the IOMMU",
        "the IOMMU is off",
        "nobody could tell whether the IOMMU is on",
        "the driver was seen too long ago",
        "an answer ended by itself this very moment",
        "what was sold before evidence was kept never ends by time",
        "one GPU shares its group: its slot is blocked alone",
        "no report came yet",
        "machines cannot run",
        "nobody asked for a burn-in",
    ],
)
def test_a_capability_stands_as_its_worst_check_does(
    said: list[Item], slices: str, baremetal: str
) -> None:
    found = judge(said, DEFAULT, NOW)
    assert (found[SLICES].standing, found[BAREMETAL].standing) == (slices, baremetal)


def test_what_holds_back_is_named_with_its_reason_and_time() -> None:
    off = Item("iommu", "fail", NOW, reason="it is off")
    (miss,) = judge(without("iommu", off), DEFAULT, NOW)[SLICES].misses
    assert miss.as_json() == {
        "check": "iommu",
        "standing": "failed",
        "code": "evidence_failed",
        "reason": "it is off",
        "device": "",
        "since": NOW.isoformat(),
    }


@pytest.mark.parametrize(
    ("version", "standing"),
    [((550, 54), "ready"), ((550, 54, 15), "ready"), ((535, 183), "failed"), ((), "missing")],
)
def test_a_version_is_held_against_the_familys_baseline(
    version: tuple[int, ...], standing: str
) -> None:
    terms = {SLICES: (Requirement("driver", at_least=(550, 54)),)}
    item = Item("driver", "pass", NOW, version=version)
    assert judge([item], terms, NOW)[SLICES].standing == standing


def test_time_alone_ends_a_capability_when_its_first_check_ends() -> None:
    said = without("numa", Item("numa", "pass", NOW - 20 * DAY))
    assert judge(said, DEFAULT, NOW)[SLICES].until == NOW + 10 * DAY
    # Three quarters of thirty days after it was seen.
    assert renewal_at(said, DEFAULT) == NOW + timedelta(days=2.5)


@pytest.mark.parametrize(
    ("known", "said", "kept"),
    [
        ("pass", "fail", "fail"),
        ("pass", "unknown", "pass"),
        ("fail", "unknown", "fail"),
        ("fail", "pass", "pass"),
        ("unknown", "unknown", "unknown"),
    ],
)
def test_that_nobody_can_tell_takes_back_nothing_that_was_seen(
    known: str, said: str, kept: str
) -> None:
    was, now = Item("vfio", known, NOW - DAY), Item("vfio", said, NOW)
    assert merged(was, now, NOW).verdict == kept
    assert merged(None, now, NOW).verdict == said


@pytest.mark.parametrize(
    ("intended", "promoted", "takes"),
    [
        ("any", (SLICES, BAREMETAL), "any"),
        ("any", (SLICES,), "slices"),
        ("slices", (SLICES, BAREMETAL), "slices"),
        ("slices", (BAREMETAL,), "none"),
        ("baremetal", (), "none"),
    ],
)
def test_intent_is_narrowed_to_what_is_promoted(
    intended: str, promoted: tuple[str, ...], takes: str
) -> None:
    assert takes_of(intended, promoted) == takes


_ITEMS = st.builds(
    Item,
    st.sampled_from(CHECKS),
    st.sampled_from(("pass", "fail", "unknown")),
    st.integers(-60, 0).map(lambda days: NOW + days * DAY),
    source=st.sampled_from(("discovery", "observed", "operator", "grandfathered")),
    device=st.sampled_from(("", "gpu-0", "gpu-1")),
    expires_at=st.none() | st.integers(-5, 60).map(lambda days: NOW + days * DAY),
)


@given(st.lists(_ITEMS, max_size=20))
def test_ready_means_that_every_required_check_is_answered_and_none_fails(
    said: list[Item],
) -> None:
    for capability, found in judge(said, DEFAULT, NOW).items():
        if not found.ready:
            assert found.misses
            continue
        for need in DEFAULT[capability]:
            mine = [item for item in said if item.check == need.check and not item.device]
            assert not any(item.verdict == "fail" for item in mine)
            if not need.unless_failed:
                assert mine
                assert all(item.verdict == "pass" for item in mine)
        assert found.until is None or found.until > NOW


def facts(**values: Any) -> list[dict[str, Any]]:
    """Facts of the host itself; None: absent."""
    return [
        {
            "device": None,
            "name": name,
            "presence": "absent" if value is None else "present",
            "value": value,
        }
        for name, value in values.items()
    ]


GPU = {"index": 0, "uuid": "GPU-1", "uuid_source": "nvml", "pci": "0000:65:00.0", "numa": 0}
GOOD = facts(nvidia_driver="550.54.15", iommu="88 groups", vfio_pci="True")


def verdicts(**report: Any) -> dict[str, str]:
    """What a discovery proves of the host itself."""
    found = from_discovery({"gpus": [GPU], **report}, NOW)
    return {item.check: item.verdict for item in found if not item.device}


@pytest.mark.parametrize(
    ("report", "check", "verdict"),
    [
        ({"facts": GOOD}, "driver", "pass"),
        ({"facts": GOOD}, "iommu", "pass"),
        ({"facts": GOOD}, "vfio", "pass"),
        ({"facts": GOOD}, "fabric", "pass"),
        ({"facts": GOOD}, "numa", "pass"),
        ({"facts": GOOD}, "firmware", "unknown"),
        ({"facts": []}, "driver", "unknown"),
        ({"facts": facts(nvidia_driver=None)}, "driver", "fail"),
        ({"facts": facts(amdgpu_driver="True")}, "driver", "pass"),
        ({"facts": facts(iommu=None)}, "iommu", "fail"),
        ({"facts": facts(vfio_pci=None)}, "vfio", "fail"),
        ({"facts": [], "nvswitches": [{}] * 4}, "fabric", "fail"),
        ({"facts": facts(fabric_manager="running"), "nvswitches": [{}]}, "fabric", "pass"),
        ({"gpus": []}, "numa", "unknown"),
        ({"gpus": []}, "fabric", "unknown"),
        ({"gpus": [GPU | {"numa": None}]}, "numa", "unknown"),
        ({"gpus": [GPU | {"uuid_source": "simulated"}]}, "iommu", "pass"),
        ({"source": {"format": "hwloc"}}, "iommu", "pass"),
        ({"source": {"format": "live"}}, "iommu", "unknown"),
        ({"gpus": [GPU | {"uuid_source": "simulated"}]}, "firmware", "unknown"),
    ],
)
def test_a_discovery_proves_what_it_saw_and_no_more(
    report: dict[str, Any], check: str, verdict: str
) -> None:
    assert verdicts(**report)[check] == verdict


def of_amd(presence: str = "", reason: str = "", **gpu: object) -> dict[str, Any]:
    """A report of a host with two of AMD's GPUs, of which the second can be cleaned."""
    second = GPU | {"index": 1, "pci": "0000:66:00.0", "uuid_source": "amdsmi"}
    told = {"name": "gpu_cleanable", "presence": presence, "value": None, "reason": reason}
    good = {"name": "gpu_cleanable", "presence": "present", "value": "flr", "reason": None}
    found = [*GOOD, {"device": "0000:66:00.0", **good}]
    found += [{"device": GPU["pci"], **told}] if presence else []
    return {"gpus": [GPU | {"uuid_source": "amdsmi"} | gpu, second], "facts": found}


@pytest.mark.parametrize(
    ("report", "verdict", "words"),
    [
        (of_amd("present"), "pass", "vfio-pci is loaded"),
        (of_amd("unknown", "driver_vfio"), "pass", "vfio-pci is loaded"),
        (of_amd("absent", "no_reset_file"), "fail", "the kernel cannot reset it by itself"),
        (of_amd("absent", "reset_proves_nothing"), "fail", "only switch its power state"),
        (of_amd("absent", "hive_shared"), "fail", "a reset of it resets the other GPUs of its"),
        (of_amd("absent", "of_another_day"), "fail", "of_another_day"),
        (of_amd(), "fail", "its host's agent cannot clean AMD's GPUs; upgrade it"),
    ],
    ids=[
        "both can be cleaned",
        "a machine has one, and the other can be cleaned",
        "one has no reset",
        "one has a reset that resets nothing",
        "one is in a hive with others",
        "a reason that is not known here",
        "the agent does not say",
    ],
)
def test_a_host_is_sold_in_slices_only_where_amds_gpus_could_be_cleaned_after(
    report: dict[str, Any], verdict: str, words: str
) -> None:
    (vfio,) = [item for item in from_discovery(report, NOW) if item.check == "vfio"]
    assert vfio.verdict == verdict
    assert words in vfio.reason
    standing = judge(without("vfio", vfio), DEFAULT, NOW)
    assert standing[SLICES].ready is (verdict == "pass")
    assert standing[BAREMETAL].ready


def test_that_machines_have_all_of_amds_gpus_says_nothing_new_of_them() -> None:
    report = of_amd("unknown", "driver_vfio")
    report["gpus"], report["facts"] = report["gpus"][:1], [*GOOD, report["facts"][-1]]
    (vfio,) = [item for item in from_discovery(report, NOW) if item.check == "vfio"]
    assert (vfio.verdict, "is not known" in vfio.reason) == ("unknown", True)


def test_gpus_that_are_all_with_vfio_leave_the_driver_unknown_and_prove_vfio() -> None:
    mine = [{"device": GPU["pci"], "name": "driver", "presence": "present", "value": "vfio-pci"}]
    found = verdicts(facts=[*facts(nvidia_driver=None, vfio_pci=None), *mine])
    assert (found["driver"], found["vfio"]) == ("unknown", "pass")


def test_a_simulated_host_says_that_it_is_one() -> None:
    found = from_discovery({"gpus": [GPU | {"uuid_source": "simulated"}]}, NOW)
    assert all("simulated" in item.reason for item in found if item.check != "numa")


def test_the_lowest_vbios_of_a_host_counts() -> None:
    other = GPU | {"index": 1, "pci": "0000:66:00.0"}
    told = [
        {"device": place, "name": "vbios", "presence": "present", "value": value}
        for place, value in (("0000:65:00.0", "96.00.74"), ("0000:66:00.0", "96.00.5E"))
    ]
    found = from_discovery({"gpus": [GPU, other], "facts": told}, NOW)
    (firmware,) = [item for item in found if item.check == "firmware"]
    assert (firmware.verdict, firmware.version) == ("pass", firmware_in("96.00.5e"))


def test_a_report_says_whether_machines_can_run() -> None:
    missing = {"code": "prerequisite_missing", "detail": "there is no /dev/kvm"}
    assert from_report([], NOW).verdict == "pass"
    assert from_report([missing], NOW).reason == "there is no /dev/kvm"
