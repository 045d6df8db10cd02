"""Does the packing benchmark keep to the published protocol?"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import packing
from benchmarks.openb import TraceError, copies_until, read_nodes, read_pods, seeds_of, trace_of
from placement.domain.demand import Bundle
from placement.domain.packing import Host

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


def real(trace: str) -> tuple[list[Host], list[Bundle]]:
    """A published fleet and trace; skips where they are not."""
    nodes, pods = TRACES / "nodes.csv", TRACES / f"pods_{trace}.csv"
    if not (nodes.exists() and pods.exists()):
        pytest.skip(f"no trace {trace}: set GPUAAS_BENCH_OPENB to the folder of its CSV files")
    return read_nodes(nodes), read_pods(pods)


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


HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "name,cpu_milli\np,1\n",
            "line 1, column memory_mib: it has no column memory_mib, num_gpu",
        ),
        ("", "it is empty; line 1 names the columns cpu_milli"),
        (HEAD, "there are no tasks below line 1"),
        (HEAD + "p,1,1,2,500,\n", "line 2, column gpu_milli: several GPUs are taken whole"),
        (HEAD + "p,1,1,1,0,\n", "line 2, column gpu_milli: a GPU is taken in parts"),
        (HEAD + "p,1,1,0,300,\n", "line 2, column gpu_milli: a share needs one GPU"),
        (HEAD + "p,1,1,1,1001,\n", "column gpu_milli: '1001' is not a whole number of 0 to 1000"),
        (HEAD + "p,1,1,1,1000,\nq,-5,1,1,1000,\n", "line 3, column cpu_milli: '-5' is not a whole"),
        (HEAD + "p,1,1.5,1,1000,\n", "line 2, column memory_mib: '1.5' is not a whole number"),
        (HEAD + "p,1,1,1\n", "line 2, column gpu_milli: it is empty or missing"),
        (HEAD + "p,1,1,1,1000,A,B,C\n", "line 2: it has more cells than line 1"),
        (HEAD + "p,1,1,0,0,\n", "column num_gpu: no task asks for a GPU"),
        (HEAD + "p,1,1,1,\n", "line 2, column gpu_milli: it is empty or missing"),
        (HEAD + "p,1,1,1,1" + 50 * "0" + ",\n", "line 2, column gpu_milli: '1000"),
        (HEAD + 'p,1,1,1,"1000\n', "line 2: it is not CSV"),
        (HEAD + "p,1,1,1," + 140_000 * "1" + "\n", "line 2: it is not CSV: field larger"),
        ("memory_mib," + HEAD + "2,p,1,1,1,1000,\n", "line 1, column memory_mib: two columns"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line_and_column(
    text: str,
    said: str,
    tmp_path: Path,
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read_pods(path)
    assert str(caught.value).startswith("odd.csv")
    assert said in str(caught.value)
    assert packing.main(["--nodes", str(files[0]), "--pods", str(path), "--seeds", "1"]) == 2
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["file"], told["line"], told["column"]) == (
        "odd.csv",
        caught.value.line,
        caught.value.column,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sn,cpu_milli\nn,1\n", "line 1, column memory_mib: it has no column memory_mib, gpu"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,two,A\n", "line 2, column gpu: 'two' is not"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,0,A\n", "column gpu: no host has a GPU"),
        (NODES + "\nn1,1,1,1,A\n", "line 5, column sn: 'n1' is the host of line 3 already"),
        (NODES.replace(",", ";"), "line 1, column sn: it has no column sn, cpu_milli, memory_mib"),
    ],
)
def test_what_is_wrong_with_the_hosts_is_told_as_well(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read_nodes(path)
    assert said in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.csv: it cannot be read"):
        read_pods(tmp_path / "none.csv")
    path = tmp_path / "raw.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="it is not UTF-8 text: byte 0"):
        read_pods(path)


def test_gzip_windows_line_ends_and_a_byte_order_mark_are_read_the_same(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    plain = read_pods(files[1])
    text = PODS.replace("\n", "\r\n").encode("utf-8-sig")
    windows, packed = tmp_path / "pods_win.csv", tmp_path / "pods_tiny.csv.gz"
    windows.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    assert read_pods(windows) == read_pods(packed) == plain
    assert trace_of(packed) == "tiny"


def test_columns_in_another_order_more_of_them_and_empty_lines_change_nothing(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    nodes, pods = tmp_path / "nodes_odd.csv", tmp_path / "pods_odd.csv"
    lines = [line.split(",") for line in NODES.splitlines()]
    odd = [f"{model}, more ,{gpu}.0,{sn}, {cpu},{mem}" for sn, cpu, mem, gpu, model in lines]
    odd[0] = "Model, more ,gpu,SN, cpu_milli,memory_mib"
    nodes.write_text("\n" + "\n\n".join(odd) + "\n,,,,,\n\n", encoding="utf-8")
    pods.write_text(PODS.replace("p2,700,10,0,0", "p2,700,10,0,"), encoding="utf-8")
    assert read_nodes(nodes) == read_nodes(files[0])
    assert read_pods(pods) == read_pods(files[1])


def test_hosts_without_gpus_need_no_model_and_take_what_asks_for_none(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(NODES + "n2,9000,900,0,\n", encoding="utf-8")
    hosts = read_nodes(path)
    assert hosts[2] == Host("n2", "", 9000, 900, ())
    pods = [Bundle(9000, 900), *4 * [Bundle(1, 1, 1, 1000)]]
    assert packing.run(hosts, pods, trace="odd", seed=1).dropped == {"1": 1}


@pytest.mark.parametrize("cell", ["8000", "8000.0", "8e3", "8E+03", "8.0e+3", "0.8e4", "80000e-1"])
def test_a_number_is_read_as_whichever_tool_wrote_it(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(HEAD + f"p,{cell},1,1,1e3,\n", encoding="utf-8")
    assert read_pods(path) == [Bundle(8000, 1, 1, 1000)]


@pytest.mark.parametrize("cell", ["8e-1", "1.5", "1e999", "-8", "e3", "0x10", "1_000", "nan", "٨"])
def test_what_is_no_whole_number_is_refused_however_it_is_written(
    cell: str, tmp_path: Path
) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(HEAD + f"p,{cell},1,1,1000,\n", encoding="utf-8")
    with pytest.raises(TraceError, match=r"column cpu_milli: .* is not a whole number"):
        read_pods(path)


@pytest.mark.parametrize("milli", ["", "0", "1000", "4000", "4e3"])
def test_several_gpus_are_whole_where_their_share_is_left_out_or_says_their_sum(
    milli: str, tmp_path: Path
) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(HEAD + f"p,1,2,4,{milli},\n", encoding="utf-8")
    assert read_pods(path) == [Bundle(1, 2, 4, 1000)]


def test_a_host_of_an_unknown_model_takes_what_names_none(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn,9,9,2,\n", encoding="utf-8")
    hosts = read_nodes(path)
    assert hosts == [Host("n", "", 9, 9, (1000, 1000))]
    pods = [Bundle(1, 1, 1, 1000), Bundle(1, 1, 1, 1000, frozenset("A")), Bundle(1, 1, 1, 1000)]
    assert packing.run(hosts, pods, trace="odd", seed=1).allocated == 100


def test_signs_that_end_lines_elsewhere_are_part_of_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(HEAD + '"p\u2028\x0c\n1",1,2,1,1000,"A |\x85B"\r\n', encoding="utf-8")
    assert read_pods(path) == [Bundle(1, 2, 1, 1000, frozenset("AB"))]


def test_a_packed_file_that_is_torn_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv.gz"
    packed = gzip.compress(PODS.encode())
    for torn in (packed[:-12], packed[:14] + b"\xff\xff" + packed[16:], packed[:3]):
        path.write_bytes(torn)
        with pytest.raises(TraceError, match=r"pods\.csv\.gz: it cannot be read"):
            read_pods(path)


def test_two_files_of_one_trace_are_not_thrown_together(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--nodes", str(files[0]), "--seeds", "1", "--pods", str(files[1]), str(files[1])]
    assert packing.main(given) == 2
    assert "another file is of the trace tiny" in capsys.readouterr().err


def test_what_fits_on_no_host_is_dropped_and_the_rest_is_placed(tmp_path: Path) -> None:
    hosts = [Host("n", "A", 8_000, 8_000, (1000, 1000))]
    pods = [
        Bundle(1000, 100, 1, 1000, frozenset({"unknown-model"})),
        Bundle(1000, 100, 8, 1000),
        Bundle(99_000, 100, 1, 500),
        Bundle(500, 10),
        Bundle(500, 10, 2, 1000),
        *(Bundle(10, 1, 1, milli) for milli in (1, 999)),
    ]
    one = packing.run(hosts, pods, trace="odd", seed=1)
    assert one.tasks == len(pods)
    assert one.dropped["8"] == 1
    assert 0 < one.allocated <= 100


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


@pytest.mark.parametrize(
    "text", ["5-4", "", "abc", "1,,2", "-3", "1 2", "1-2-3", "1,1", "0-9999999"]
)
def test_what_names_no_seeds_is_said_before_anything_runs(
    text: str, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="seed"):
        seeds_of(text)
    given = ["--nodes", str(files[0]), "--pods", str(files[1]), f"--seeds={text}"]
    with pytest.raises(SystemExit) as ended:
        packing.main(given)
    assert ended.value.code == 2
    assert "argument --seeds:" in capsys.readouterr().err


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


def test_a_part_of_a_trace_or_another_fleet_stands_beside_no_published_figure(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "pods_default.csv"
    part.write_text(PODS, encoding="utf-8")
    assert packing.main(["--nodes", str(files[0]), "--pods", str(part), "--seeds", "1"]) == 0
    told = capsys.readouterr().out
    result = json.loads(told.splitlines()[-1])
    assert result["ahead_least"] is None
    assert result["traces"]["default"]["ahead_of_published_fgd"] is None
    assert "| default | - | - | - | - | - | - |" in told
    assert "beside nothing: default." in told


@pytest.mark.parametrize("trace", sorted(packing.PUBLISHED))
def test_a_published_trace_is_known_by_what_is_in_it(trace: str) -> None:
    hosts, bundles = real(trace)
    assert packing.published_of(hosts, bundles) == trace
    assert packing.published_of(hosts[1:], bundles) == ""
    assert packing.published_of(hosts, bundles[1:]) == ""
    one = packing.run(hosts, bundles, trace="mine", seed=7, limit=10)
    assert packing.by_trace([one])[0].published == packing.PUBLISHED[trace]


@pytest.mark.parametrize("trace", sorted(packing.PUBLISHED))
def test_the_first_tasks_of_a_real_trace_all_find_room(trace: str) -> None:
    hosts, bundles = real(trace)
    one = packing.run(hosts, bundles, trace=trace, seed=7, limit=600)
    asked = copies_until(bundles, 1.3 * 6_212_000, seed=7)[:600]
    assert one.dropped == {}
    assert one.allocated == pytest.approx(sum(b.demand_milli for b in asked) / 62_120)
