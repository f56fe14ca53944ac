"""What a node type answers."""

from __future__ import annotations

import pytest

from wattlaw.errors import ConfigError
from wattlaw.hardware import Link, NodeType, accelerator, node_type

NETWORK = Link(kind="ethernet-100g", bytes_per_s=12.5e9, latency_s=30e-6)


def made(**changes):
    """A made-up one, with some of its figures changed."""
    fields = {
        "name": "made-up",
        "accelerators_per_node": 4,
        "inter_node_link": NETWORK,
        "host_power_w": 300.0,
        "host_idle_power_w": 150.0,
    }
    return NodeType(**{**fields, **changes})


def test_a_box_is_as_fast_as_the_slower_of_card_and_bus():
    """In a PCIe 4 box a PCIe 3 card keeps its own rate and a PCIe 5 card gets that of the box."""
    box = node_type("pcie-box")
    assert box.link_of(accelerator("rtx-2080-ti")).kind == "pcie-3-x16"
    assert box.link_of(accelerator("rtx-5090")).kind == "pcie-4-x16"


def test_a_dgx_uses_the_link_of_its_devices():
    """In a DGX A100 the devices reach one another over their NVLinks."""
    device = accelerator("a100-sxm4-40gb")
    assert node_type("dgx-a100").link_of(device) == device.link


def test_a_node_refuses_devices_it_is_not_sold_with():
    """A DGX H100 has no A100 in it; the error lists what it has."""
    with pytest.raises(ConfigError, match=r"dgx-h100 has no a100-sxm4-40gb.*allowed h100-sxm5-80gb"):
        node_type("dgx-h100").link_of(accelerator("a100-sxm4-40gb"))


@pytest.mark.parametrize("field", ["accelerators_per_node", "host_power_w", "host_idle_power_w", "rated_power_w"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_figures_are_above_zero(field, value):
    """A figure that is not finite and above zero is refused by name."""
    with pytest.raises(ConfigError, match=field):
        made(**{field: value})


def test_an_idle_host_draws_no_more_than_a_busy_one():
    """Idle power above busy power is refused."""
    with pytest.raises(ConfigError, match="exceeds"):
        made(host_idle_power_w=301.0)


def test_reference_is_the_name_of_a_shipped_node():
    """What a shipped node type is stored by is its canonical name."""
    node = node_type("DGX A100")
    assert node.reference == "dgx-a100"
    assert node_type(node.reference) is node
