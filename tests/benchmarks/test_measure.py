"""Does a comparison say only what was measured side by side?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import curves, peers, report
from benchmarks.measure import NotInterleavedError, Pairs, interleaved


def test_sides_run_in_turn_and_the_median_of_the_ratios_is_told() -> None:
    ran: list[str] = []

    def side(letter: str, value: float) -> float:
        ran.append(letter)
        return value

    pairs = interleaved(lambda: side("A", 4.0), lambda: side("B", 2.0), pairs=5)
    assert "".join(ran) == "AB" * 6, "one unmeasured run of each, then five pairs in turn"
    assert pairs.ratio == 2.0


@pytest.mark.parametrize(
    "order", ["AAAAABBBBB", "ABABABABBA", "", "ABABABAB"], ids=["blocks", "swapped", "none", "few"]
)
def test_no_ratio_is_told_of_sides_that_did_not_run_in_turn(order: str) -> None:
    pairs = Pairs((1.0,) * 5, (1.0,) * 5, order)
    with pytest.raises(NotInterleavedError):
        _ = pairs.ratio
    with pytest.raises(NotInterleavedError):
        pairs.told("p1")
    with pytest.raises(NotInterleavedError):
        pairs.as_json()


def test_fewer_than_five_pairs_give_no_ratio() -> None:
    with pytest.raises(ValueError, match="five"):
        interleaved(lambda: 1.0, lambda: 1.0, pairs=4)
    with pytest.raises(NotInterleavedError):
        _ = Pairs((1.0,) * 4, (1.0,) * 4, "AB" * 4).ratio


def test_a_run_replaces_its_own_part_of_the_page_and_no_other(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    report.section("claims", ["first"], page)
    report.section("agents", ["second"], page)
    report.section("claims", ["third"], page)
    text = page.read_text("utf-8")
    assert "first" not in text
    assert text.count("third") == text.count("second") == 1
    assert text.index("third") < text.index("second")
    assert text.startswith("# Benchmarks\n")


def test_the_picture_tells_curves_apart_without_colour_and_in_both_schemes() -> None:
    svg = curves.drawn(
        "Claims per second", {"ours & theirs": {100: 300.0, 1000: 290.0}, "other": {100: 20.0}}
    )
    assert "prefers-color-scheme: dark" in svg
    assert "ours &amp; theirs" in svg
    assert len(set(re.findall(r'stroke-dasharray="([^"]*)"', svg))) == 2
    assert "290/s at 1000 nodes" in svg
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" style', svg)]
    assert abs(heights[0] - heights[1]) >= 17, "names do not lie on each other"


def test_nothing_is_drawn_of_nothing() -> None:
    with pytest.raises(ValueError, match="between one and"):
        curves.drawn("empty", {"none": {}})


def test_an_absent_peer_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PATH", "/nowhere")
    with pytest.raises(peers.PeerAbsent, match="apt-get install"):
        peers.slurm_programs()


def test_a_peer_sees_nothing_of_our_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("GPUAAS_SECRET_KEY", "secret")
    env = peers.clean_environment()
    assert "PYTHONPATH" not in env
    assert "GPUAAS_SECRET_KEY" not in env
