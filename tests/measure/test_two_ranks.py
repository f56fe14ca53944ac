"""Two ranks on one node: a real torchrun with gloo, and GPUs of a scripted driver behind the real NVML client."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from wattlaw.run import read_records

TRAIN = """
    import os, sys, time, torch, torch.distributed as dist
    from wattlaw.measure import measure

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    with measure(output=sys.argv[1]) as job:
        end = time.monotonic() + 1.3
        while True:
            model(torch.ones(2, 4) * (1 + dist.get_rank())).sum().backward()
            # Both must leave in the same step.
            going = torch.tensor(float(time.monotonic() < end))
            dist.all_reduce(going, op=dist.ReduceOp.MIN)
            if not going:
                break
    dist.barrier()
    # Gloo's threads can abort an interpreter that ends while another rank still leaves: what is tested is done.
    os._exit(0)
"""
COMMAND_LINE = "import sys; from wattlaw.cli.run import command as c; sys.exit(c.main(standalone_mode=False))"


def test_two_ranks_on_one_node_give_one_record_with_the_nodes_energy_once(driver, tmp_path):
    """Both ranks run ``wattlaw run`` around a script that both meter with ``measure``: two windows, one record of each.

    Two GPUs draw 100 W each, so a record that counted the node per rank would hold twice 200 W times its time.
    """
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("torch without distributed training")
    driver.gpu(0)
    driver.gpu(1)
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN))
    (tmp_path / "run.py").write_text(COMMAND_LINE)
    outer, inner = tmp_path / "outer.jsonl", tmp_path / "inner.jsonl"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    ranks = [sys.executable, str(tmp_path / "run.py"), "-o", str(outer), "--"]
    train = [sys.executable, str(tmp_path / "train.py"), str(inner)]
    done = subprocess.run(
        [*launch, *ranks, *train],
        env=driver.environment(OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for store in (outer, inner):
        (record,) = read_records(store)
        assert record.status == "ok"
        # The windows of meter and job differ by what a busy machine takes to switch; a second count would double it.
        assert record.energy("accelerators").energy_j == pytest.approx(200.0 * record.duration_s, rel=0.25)
        assert record.environment["world_size"] == "2"
        assert record.environment["launcher"] == "torchrun"
        assert record.environment["measured_by"].endswith("rank 0")
    assert read_records(inner)[0].environment["inside"] == read_records(outer)[0].record_id
