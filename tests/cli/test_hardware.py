"""``wattlaw hardware``: what is known, with its sources."""

from __future__ import annotations

import json

from wattlaw.hardware import accelerators, node_types


def test_the_list_has_every_device_and_node(wattlaw):
    """As a table that fits 80 columns, and as JSON."""
    text = wattlaw("hardware", "list").out
    said = json.loads(wattlaw("hardware", "list", "--json").out)
    assert max(len(line) for line in text.splitlines()) <= 80
    for device in accelerators():
        assert f"{device.name} " in text
        assert f"{device.link.kind}" in text
    assert [one["name"] for one in said["accelerators"]] == [one.name for one in accelerators()]
    assert [one["name"] for one in said["node_types"]] == [one.name for one in node_types()]


def test_show_cites_every_figure(wattlaw):
    """By the name that the driver prints, or a node type's."""
    said = json.loads(wattlaw("hardware", "show", "NVIDIA A100-SXM4-40GB", "--json").out)
    assert said["name"] == "a100-sxm4-40gb"
    assert {"memory.bandwidth_bytes_per_s", "power.limit_w"} <= set(said["sources"])
    assert "data sheet" in wattlaw("hardware", "show", "a100-sxm4-40gb").out
    assert "host" in wattlaw("hardware", "show", "dgx-a100").out


def test_a_name_that_is_not_known_lists_the_nearest(refused):
    """Never a guess."""
    refused("hardware", "show", "a100", words=["a100-sxm4-40gb"])
    refused("hardware", "show", "", words=["''"])
    refused("hardware", "show", "missing.toml", words=["missing.toml"])


def test_a_name_of_nothing_is_answered_with_the_nearest_of_all_kinds(refused):
    """An accelerator, a node type or a region may be meant; a name that two regions have says which."""
    refused("hardware", "show", "Germny", words=("accelerator, node type or region", "Germany"))
    refused("hardware", "show", "dgx-a10", words=("dgx-a100",))
    refused("hardware", "show", "Georgia", words=("could mean several", "GE (Georgia)", "US-GA (Georgia)"))
    refused("hardware", "show", "a100", words=("could mean several", "a100-sxm4-40gb"))
