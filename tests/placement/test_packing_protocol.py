"""Does the packing benchmark keep to the published protocol?"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import packing
from benchmarks.openb import copies_until, read_nodes, read_pods, seeds_of
from placement.domain.demand import Bundle

TRACES = Path(
    os.environ.get(
        "GPUAAS_BENCH_OPENB", Path(__file__).resolve().parents[3] / "shared" / "data" / "openb"
    )
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,800,2,A\nn1,4000,400,1,B\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
    "p0,1000,100,1,1000,A|B,LS\np1,500,50,1,300,,BE\np2,700,10,0,0,,LS\n"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods_tiny.csv"
    nodes.write_text(NODES, encoding="utf-8")
    pods.write_text(PODS, encoding="utf-8")
    return nodes, pods


def test_a_line_of_each_file_is_read_whole(files: tuple[Path, Path]) -> None:
    hosts, pods = read_nodes(files[0]), read_pods(files[1])
    assert [(host.name, host.model, host.gpus) for host in hosts] == [
        ("n0", "A", (1000, 1000)),
        ("n1", "B", (1000,)),
    ]
    assert pods == [
        Bundle(1000, 100, 1, 1000, frozenset("AB")),
        Bundle(500, 50, 1, 300),
        Bundle(700, 10),
    ]


def test_a_file_without_models_lets_any_model_do(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,2,8,1000\n", encoding="utf-8")
    assert read_pods(path) == [Bundle(1, 2, 8, 1000)]


def test_a_missing_column_and_a_bad_line_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("name,cpu_milli\np,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.csv has no column memory_mib, num_gpu, gpu_milli"):
        read_pods(path)
    path.write_text(PODS + "p3,1,1,2,500,,\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.csv, line 5: several GPUs are taken whole"):
        read_pods(path)


def test_all_tasks_and_copies_are_asked_for_until_the_requests_suffice() -> None:
    pods = [Bundle(k, 0, 1, 100 * k) for k in range(1, 10)]
    queue = copies_until(pods, 9_000, seed=42)
    asked = Counter(queue)
    assert all(asked[pod] >= 1 for pod in pods)
    assert 9_000 <= sum(pod.demand_milli for pod in queue) < 9_900
    assert queue == copies_until(pods, 9_000, seed=42)
    assert queue != copies_until(pods, 9_000, seed=43)


def test_a_trace_that_asks_for_more_is_only_shuffled() -> None:
    pods = [Bundle(k, 0, 1, 1000) for k in range(20)]
    queue = copies_until(pods, 5_000, seed=1)
    assert queue != pods
    assert Counter(queue) == Counter(pods)


def test_a_trace_without_gpus_never_ends_and_is_refused() -> None:
    with pytest.raises(ValueError, match="no task asks for a GPU"):
        copies_until([Bundle(1, 1)], 100, seed=1)


@pytest.mark.parametrize(
    ("text", "seeds"), [("42-45", [42, 43, 44, 45]), ("1,2,5-6", [1, 2, 5, 6]), ("7", [7])]
)
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert seeds_of(text) == seeds


def test_seeds_that_run_backwards_are_none() -> None:
    with pytest.raises(ValueError, match="no seed"):
        seeds_of("5-4")


def test_what_is_allocated_and_dropped_is_all_that_was_asked(files: tuple[Path, Path]) -> None:
    hosts, pods = read_nodes(files[0]), read_pods(files[1])
    queue = copies_until(pods, 3_900, seed=3)
    for side in (packing.OURS, *packing.BESIDE):
        one = packing.run(hosts, pods, trace="tiny", seed=3, side=side)
        assert one.tasks == len(queue)
        assert 0 < one.allocated <= 100
        assert sum(one.dropped.values()) < one.tasks


def test_the_last_line_is_one_json_object_and_the_page_holds_the_table(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    given = ["--nodes", str(files[0]), "--pods", str(files[1]), "--seeds", "1-2"]
    assert packing.main([*given, "--beside", "--write", str(page)]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"packing_mean", "packing_sd", "ms_per_decision", "traces"} <= set(result)
    assert set(result["traces"]["tiny"]["runs"]) == {"1", "2"}
    assert set(result["beside"]) == {side.name for side in packing.BESIDE}
    assert f"{result['packing_mean']:.2f} ±" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("trace", sorted(packing.PUBLISHED))
def test_the_first_tasks_of_a_real_trace_all_find_room(trace: str) -> None:
    nodes, pods = TRACES / "nodes.csv", TRACES / f"pods_{trace}.csv"
    if not (nodes.exists() and pods.exists()):
        pytest.skip(f"no trace {trace}: set GPUAAS_BENCH_OPENB to the folder of its CSV files")
    hosts, bundles = read_nodes(nodes), read_pods(pods)
    one = packing.run(hosts, bundles, trace=trace, seed=7, limit=600)
    asked = copies_until(bundles, 1.3 * 6_212_000, seed=7)[:600]
    assert one.dropped == {}
    assert one.allocated == pytest.approx(sum(b.demand_milli for b in asked) / 62_120)
