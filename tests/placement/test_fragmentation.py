"""Does the fast measure of fragmentation agree with its definition, host by host?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.domain.demand import Bundle, Mix
from placement.domain.fragmentation import Free, Measure
from placement.domain.packing import Host

MODELS = ("A", "B")
SHARES = st.sampled_from([100, 190, 300, 500, 810, 999])
GPU_FREE = st.sampled_from([0, 100, 190, 200, 500, 810, 999, 1000])


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    gpus = draw(st.sampled_from([0, 1, 1, 1, 2, 3]))
    milli = draw(st.just(1000) | SHARES) if gpus == 1 else 1000 * bool(gpus)
    models = draw(st.sampled_from([frozenset[str](), frozenset("A"), frozenset("AB")]))
    return Bundle(draw(st.integers(0, 8)), draw(st.integers(0, 8)), gpus, milli, models)


HOSTS = st.builds(
    Host,
    st.just("host"),
    st.sampled_from(MODELS),
    st.integers(0, 10),
    st.integers(0, 10),
    st.lists(GPU_FREE, min_size=1, max_size=3).map(tuple),
)
MIXES = st.dictionaries(bundles(), st.integers(1, 9), min_size=1, max_size=6).map(Mix.counted)


def state(*hosts: Host) -> Free:
    width = max(len(host.gpus) for host in hosts)
    return Free(
        np.array([host.cpu_milli for host in hosts]),
        np.array([host.memory_mib for host in hosts]),
        np.array([MODELS.index(host.model) for host in hosts]),
        np.array([[*host.gpus, *[0] * (width - len(host.gpus))] for host in hosts]),
    )


def fragments(mix: Mix, *hosts: Host) -> list[float]:
    values: list[float] = Measure(mix, MODELS).fragments(state(*hosts)).tolist()
    return values


def stranded(mix: Mix, *hosts: Host) -> list[float]:
    values: list[float] = Measure(mix, MODELS).stranded(state(*hosts)).tolist()
    return values


def of_no_use(host: Host, bundle: Bundle) -> int:
    """The published definition, read aloud: free GPU-milli that the bundle cannot use."""
    total = sum(host.gpus)
    if bundle.gpus == 0:
        return total
    if host.cpu_milli < bundle.cpu_milli or host.memory_mib < bundle.memory_mib:
        return total
    if bundle.models and host.model not in bundle.models:
        return total
    large_enough = [free for free in host.gpus if free >= bundle.gpu_milli]
    if len(large_enough) < bundle.gpus:
        return total
    return total - sum(large_enough)


@given(MIXES, st.lists(HOSTS, min_size=1, max_size=4))
def test_fragmentation_is_the_mean_of_what_each_bundle_cannot_use(
    mix: Mix, hosts: list[Host]
) -> None:
    expected = [sum(p * of_no_use(host, bundle) for bundle, p in mix.parts) for host in hosts]
    assert fragments(mix, *hosts) == pytest.approx(expected, abs=1e-6)


@given(MIXES, HOSTS)
def test_fragmentation_is_never_more_than_what_is_free(mix: Mix, host: Host) -> None:
    assert -1e-6 <= fragments(mix, host)[0] <= sum(host.gpus) + 1e-6


@given(MIXES, HOSTS, st.data())
def test_taking_anything_never_makes_more_capacity_usable(
    mix: Mix, host: Host, data: st.DataObject
) -> None:
    less = Host(
        host.name,
        host.model,
        data.draw(st.integers(0, host.cpu_milli)),
        data.draw(st.integers(0, host.memory_mib)),
        tuple(data.draw(st.integers(0, free)) for free in host.gpus),
    )
    usable = [
        sum(h.gpus) - f for h, f in zip((host, less), fragments(mix, host, less), strict=True)
    ]
    assert usable[1] <= usable[0] + 1e-6


@given(MIXES, HOSTS)
def test_the_order_of_a_hosts_gpus_does_not_matter(mix: Mix, host: Host) -> None:
    turned = Host(host.name, host.model, host.cpu_milli, host.memory_mib, host.gpus[::-1])
    assert fragments(mix, host) == pytest.approx(fragments(mix, turned))


@given(MIXES, HOSTS)
@settings(max_examples=50)
def test_stranded_is_what_cpu_and_memory_do_not_carry(mix: Mix, host: Host) -> None:
    gpu = sum(p * b.gpus * b.gpu_milli for b, p in mix.parts)
    cpu = sum(p * b.cpu_milli for b, p in mix.parts)
    memory = sum(p * b.memory_mib for b, p in mix.parts)
    carried = [float(sum(host.gpus))]
    if gpu and cpu:
        carried.append(host.cpu_milli * gpu / cpu)
    if gpu and memory:
        carried.append(host.memory_mib * gpu / memory)
    assert stranded(mix, host)[0] == pytest.approx(sum(host.gpus) - min(carried), abs=1e-6)


def test_eight_free_gpus_with_cpu_for_one_bundle_are_stranded_though_not_fragmented() -> None:
    mix = Mix.counted({Bundle(10, 0, 1, 1000): 1})
    host = Host("host", "A", 10, 0, (1000,) * 8)
    assert fragments(mix, host) == [0.0]
    assert stranded(mix, host) == [7000.0]


def test_a_full_host_has_neither() -> None:
    mix = Mix.counted({Bundle(1, 1, 1, 500): 1})
    host = Host("host", "A", 5, 5, (0, 0))
    assert fragments(mix, host) + stranded(mix, host) == [0.0, 0.0]


def test_an_empty_mix_finds_nothing_fragmented() -> None:
    host = Host("host", "A", 0, 0, (1000, 300))
    assert fragments(Mix(), host) + stranded(Mix(), host) == [0.0, 0.0]


def test_a_mix_counts_every_kind_and_leaves_out_the_rarest_first() -> None:
    often, rare = Bundle(1, 1, 1, 1000), Bundle(2, 2, 1, 500)
    assert Mix.seen([often, rare, often, often]).parts == ((often, 0.75), (rare, 0.25))
    assert Mix.seen([often, rare, often], limit=1).parts == ((often, 1.0),)


@pytest.mark.parametrize(
    ("gpus", "milli"), [(0, 500), (1, 0), (1, 1001), (2, 500), (-1, 1000)], ids=str
)
def test_a_bundle_that_makes_no_sense_is_refused(gpus: int, milli: int) -> None:
    with pytest.raises(ValueError, match=r"GPU|negative"):
        Bundle(1, 1, gpus, milli)
