"""Is a fleet's inventory read as it is, and a file that is none refused with its line?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.fleets import FleetError, hosts_by_size, shared_out


def test_hosts_are_counted_by_their_gpus_and_shared_out_in_proportion(tmp_path: Path) -> None:
    path = tmp_path / "fleet.csv"
    sizes = [1] * 6 + [8] * 3 + [4]
    path.write_text("gpu_model,gpu_capacity_num\n" + "".join(f"A,{size}\n" for size in sizes))
    hosts = hosts_by_size(path)
    assert hosts == Counter({1: 6, 8: 3, 4: 1})
    assert shared_out(hosts, 1000) == {1: 600, 4: 100, 8: 300}
    assert shared_out(hosts, 5) == {1: 3, 4: 1, 8: 1}, "at least one of each size"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column"),
        ("gpu_model\nA\n", "no column"),
        ("gpu_capacity_num\n", "no host"),
        ("gpu_capacity_num\n8\n3\n", "line 3"),
        ("gpu_capacity_num\nmany\n", "'many'"),
    ],
)
def test_a_file_that_is_no_inventory_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "fleet.csv"
    path.write_text(text)
    with pytest.raises(FleetError, match=said):
        hosts_by_size(path)
