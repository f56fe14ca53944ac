"""Data files of the user's own: read like the shipped ones, and refused by file and field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wattlaw.errors import FileError
from wattlaw.hardware import accelerator, node_type
from wattlaw.hardware.files import read_links
from wattlaw.hardware.lookup import DATA

GPU = """\
full_name = "My GPU"
vendor = "mine"

[peak.matrix]
bf16_flop_per_s = { value = 100e12, source = "measured" }

[memory]
capacity_bytes = { value = 17179869184, source = "measured" }
bandwidth_bytes_per_s = { value = 500e9, source = "measured" }

[power]
limit_w = { value = 150, source = "measured" }

[link]
kind = "pcie-4-x16"
bytes_per_s = { value = 31.5e9, source = "measured" }

[sources.measured]
title = "wattlaw probe on my machine"
"""

NODE = """\
full_name = "My box"
accelerators_per_node = 2

[power]
host_w = { value = 200, source = "measured" }
host_idle_w = { value = 80, source = "measured" }

[inter_node_link]
kind = "ethernet-10g"
bytes_per_s = { value = 0.625e9, source = "measured" }

[sources.measured]
title = "a plug meter"
"""


@pytest.fixture
def write(tmp_path):
    """Write a file and return its path."""

    def written(text, name="my-gpu.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def test_a_gpu_is_one_file(write):
    """A file of one's own, given by its path, is an accelerator named by its stem and stored by its path."""
    path = write(GPU)
    device = accelerator(path)
    assert device.name == "my-gpu"
    assert device.reference == path
    assert device.precisions == ("bf16",)
    assert device.peak_flop_per_s("bf16") == 100e12
    assert device.link.latency_s > 0
    assert device.source_of("power.limit_w").title == "wattlaw probe on my machine"
    assert accelerator(device.reference) == device


def test_a_node_is_one_file(write):
    """A file of one's own, given by its path, is a node type."""
    node = node_type(write(NODE, "my-box.toml"))
    assert (node.name, node.accelerators_per_node, node.rated_power_w) == ("my-box", 2, None)
    assert node.inter_node_link.bytes_per_s == 0.625e9


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        ("limit_w = { value = 150", "limit_w = { value = -150", "power.limit_w.value", "> 0.*given -150"),
        ("limit_w = { value = 150", "limit_w = { value = 0", "power.limit_w.value", "> 0"),
        ("limit_w = { value = 150", "limit_w = { value = nan", "power.limit_w.value", "> 0"),
        ("limit_w = { value = 150", "limit_w = { value = inf", "power.limit_w.value", "<"),
        ("limit_w = { value = 150", 'limit_w = { value = "150 W"', "power.limit_w.value", "expected"),
        ("limit_w = { value = 150", "limit_w = { value = true", "power.limit_w.value", "expected"),
        ("limit_w = { value = 150, source", "limit_w = { value = 150, sauce", "power.limit_w", "allowed source"),
        ("limit_w", "limit_kw", "power", "allowed limit_w"),
        ("limit_w = ", "# limit_w = ", "power", "limit_w"),
        ('limit_w = { value = 150, source = "measured" }', "limit_w = 150", "power.limit_w", "expected"),
        ("[memory]", "[memroy]", "", "allowed memory"),
        ("bf16_flop_per_s", "bf16_tflops", "peak.matrix", "allowed bf16_flop_per_s"),
        ("bf16_flop_per_s = ", "# bf16_flop_per_s = ", "peak", "no rate"),
        ('kind = "pcie-4-x16"', 'kind = "pcie-4-x32"', "link.kind", "allowed pcie-4-x16"),
        ('150, source = "measured"', '150, source = "guess"', "power.limit_w.source", "allowed measured"),
        ("title = ", "name = ", "sources.measured", "allowed title"),
        ('vendor = "mine"', "vendor = 7", "vendor", "expected"),
        ('full_name = "My GPU"\n', "", "", "full_name"),
        ("17179869184", "17179869184e40", "memory.capacity_bytes.value", "<"),
    ],
)
def test_bad_fields_are_named(write, old, new, field, message):
    """One line names the file and the field, and what is allowed there."""
    text = GPU.replace(old, new)
    assert text != GPU
    path = write(text)
    with pytest.raises(FileError) as caught:
        accelerator(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: {field}: " if field else f"{path}: ")
    assert re.search(message, line)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("accelerators_per_node = 2", "accelerators_per_node = 0", "accelerators_per_node"),
        ("accelerators_per_node = 2", "accelerators_per_node = 1.5", "accelerators_per_node"),
        ("value = 80", "value = 800", "host_idle_power_w"),
        ("ethernet-10g", "ethernet-11g", "inter_node_link.kind"),
        ("host_idle_w", "idle_w", "power"),
    ],
)
def test_bad_fields_of_nodes_are_named(write, old, new, field):
    """One line names the file and the field of a node type too."""
    path = write(NODE.replace(old, new))
    with pytest.raises(FileError) as caught:
        node_type(path)
    assert str(caught.value).startswith(f"{path}: {field}")


def test_bad_links_are_named(write):
    """The file of links is checked like the others: a source that it does not describe is named."""
    row = '{ value = 1e9, source = "wire" }'
    text = f'[links.wire]\nfull_name = "Wire"\nbytes_per_s = {row}\nlatency_s = {row}\n[sources.%s]\ntitle = "-"\n'
    good, bad = write(text % "wire", "good.toml"), write(text % "rope", "bad.toml")
    assert read_links(Path(good))["wire"].bytes_per_s == 1e9
    with pytest.raises(FileError) as caught:
        read_links(Path(bad))
    assert str(caught.value).startswith(f"{bad}: links.wire.bytes_per_s.source: unknown source; given wire")


@pytest.mark.parametrize("text", ["", "full_name = ", "a = 1\na = 2", "a = " + "[" * 5000])
def test_files_that_are_no_description(write, text):
    """Empty, truncated, contradictory and endlessly nested files are refused by name."""
    path = write(text)
    with pytest.raises(FileError) as caught:
        accelerator(path)
    assert str(caught.value).startswith(path)


def test_files_that_cannot_be_read(tmp_path):
    """A missing file, a folder and bytes that are no text are refused by name."""
    folder, binary = tmp_path / "folder.toml", tmp_path / "binary.toml"
    folder.mkdir()
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.toml", folder, binary):
        with pytest.raises(FileError) as caught:
            accelerator(str(path))
        assert str(caught.value).startswith(str(path))
    with pytest.raises(FileError):
        accelerator("\0.toml")


def test_shipped_names_are_no_files_of_the_working_folder(write, monkeypatch, tmp_path):
    """Only a name that ends in .toml is a path: a file called like a device does not shadow it."""
    write(GPU, "t4")
    monkeypatch.chdir(tmp_path)
    assert accelerator("t4").full_name == "NVIDIA T4"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_truncated_file_is_read_or_refused(write, cut):
    """A shipped description cut at any place gives a device or an error of that file, nothing else."""
    text = (DATA / "accelerators" / "rtx-2080-ti.toml").read_text(encoding="utf-8")
    path = write(text[: cut % len(text)])
    try:
        outcome = accelerator(path).reference
    except FileError as error:
        outcome = str(error)
    assert outcome.startswith(path)


def test_the_documented_files_are_read(write):
    """The GPU and the node type that docs/hardware.md shows work as they stand there."""
    page = Path(__file__).parents[2] / "docs" / "hardware.md"
    gpu, node = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert accelerator(write(gpu)).precisions == ("fp32", "bf16", "fp16")
    assert node_type(write(node)).accelerators_per_node == 2
