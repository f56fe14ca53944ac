"""Times of modules as values and as a file."""

from __future__ import annotations

import pytest

from wattlaw.errors import FileError
from wattlaw.hardware import accelerator
from wattlaw.measure.module_times import ModuleTimes, PartTime, read_module_times, write_module_times
from wattlaw.parallel.layout import Layout
from wattlaw.run import RunSpec
from wattlaw.workload import Recipe, from_sizes


@pytest.fixture
def times():
    """Norms of three blocks."""
    spec = RunSpec(
        architecture=from_sizes("bert", head="mlm", num_layers=3, hidden_size=32, num_heads=4, ffn_size=64,
                                vocab_size=100),
        recipe=Recipe(batch_size=2, seq_len=16, precision="fp32", steps=1),
        layout=Layout(),
        accelerator=accelerator("generic-cpu"),
    )  # fmt: skip
    parts = tuple(PartTime(part="norm", block=number, forward_s=1.0, backward_s=2.0) for number in range(3))
    return ModuleTimes(spec=spec, parts=parts, pass_s=9.0, update_s=1.0, num_steps=1, threads=1)


def test_blocks_are_added_up_by_part(times) -> None:
    """Forward and backward pass together."""
    assert times.by_part() == {"norm": 9.0}


def test_what_is_written_is_read_again(times, tmp_path) -> None:
    """Every number and the run itself."""
    path = tmp_path / "modules.jsonl"
    write_module_times(path, [times])
    assert read_module_times(path) == (times,)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "not times of modules"),
        ('{"format": "wattlaw modules", "format_version": 2}', "not times of modules"),
        ('{"format": "wattlaw modules", "format_version": 1}', "a field is missing; given spec"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_line(tmp_path, content, words) -> None:
    """One line that says what is wrong."""
    path = tmp_path / "modules.jsonl"
    path.write_text(content)
    with pytest.raises(FileError, match=words) as caught:
        read_module_times(path)
    assert f"{path}: line 1" in str(caught.value)
    with pytest.raises(FileError, match="cannot read"):
        read_module_times(tmp_path / "absent.jsonl")
