"""The shipped figures: against numbers typed here a second time, against arithmetic, and against one another."""

from __future__ import annotations

import pytest

from wattlaw.hardware import RATED_PRECISIONS, accelerator, accelerators, link, links, node_types

TERA, GIGA, GIB = 1e12, 1e9, 2**30
ALL = accelerators()


def names_of(values):
    """The names of the values, as identifiers of the cases."""
    return [value.name for value in values]


# name: fp16 with sums in fp32, fp32 without TF32 (both in Tflop/s, dense), GiB, GB/s, W, link in GB/s per direction.
# From the vendors' data sheets; None where the device does not compute in that format.
WORKED = {
    "p100-sxm2-16gb": (21.2, 10.6, 16, 732, 300, 80),  # Tesla P100 data sheet; 160 GB/s NVLink both ways
    "v100-pcie-16gb": (112, 14, 16, 900, 250, 15.75),  # V100 data sheet
    "v100-sxm2-32gb": (125, 15.7, 32, 900, 300, 150),  # V100 data sheet; 300 GB/s both ways
    "t4": (65, 8.1, 16, 320, 70, 15.75),  # T4 data sheet
    "rtx-2080-ti": (53.8, 13.4, 11, 616, 250, 15.75),  # Turing whitepaper, reference clocks
    "quadro-rtx-6000": (130.5, 16.3, 24, 672, 260, 15.75),  # Turing whitepaper
    "rtx-3090": (71, 35.6, 24, 936, 350, 31.5),  # GA102 whitepaper
    "rtx-4090": (165.2, 82.6, 24, 1008, 450, 31.5),  # Ada whitepaper
    "rtx-5090": (209.5, 104.8, 32, 1792, 575, 63),  # RTX Blackwell whitepaper
    "a10": (125, 31.2, 24, 600, 150, 31.5),  # A10 data sheet
    "a30": (165, 10.3, 24, 933, 165, 31.5),  # A30 data sheet
    "a40": (149.7, 37.4, 48, 696, 300, 31.5),  # A40 data sheet
    "rtx-a6000": (154.8, 38.7, 48, 768, 300, 31.5),  # GA102 whitepaper
    "a100-pcie-80gb": (312, 19.5, 80, 1935, 300, 31.5),  # A100 data sheet
    "a100-sxm4-40gb": (312, 19.5, 40, 1555, 400, 300),  # A100 data sheet; 600 GB/s both ways
    "l4": (121, 30.3, 24, 300, 72, 31.5),  # L4 data sheet, 242 sparse
    "l40s": (362.05, 91.6, 48, 864, 350, 31.5),  # L40S data sheet
    "h100-pcie-80gb": (756, 51.2, 80, 2039, 350, 63),  # H100 whitepaper
    "h100-sxm5-80gb": (989.4, 66.9, 80, 3352, 700, 450),  # H100 whitepaper; 900 GB/s both ways
    "h100-nvl-94gb": (835.5, 60, 94, 3900, 400, 63),  # H100 data sheet, 1671 sparse
    "h200-sxm-141gb": (989.4, 66.9, 141, 4800, 700, 450),  # H200 data sheet, 1979 sparse
    "h200-nvl-141gb": (835.5, 60, 141, 4800, 600, 63),  # H200 data sheet, 1671 sparse
    "b200": (2250, 75, 180, 8000, 1000, 900),  # DGX B200: 36 Pflop/s sparse for eight
    "gb200": (2500, 80, 186, 8000, 1200, 900),  # GB200 NVL72: 360 Pflop/s sparse for 72
    "mi100": (184.6, 46.1, 32, 1228.8, 300, 31.5),  # ROCm documentation
    "mi250x": (383, 95.7, 128, 3276.8, 560, 400),  # MI200 series data sheet, both dies
    "mi300x": (1307.4, 163.4, 192, 5300, 750, 448),  # ROCm documentation; 896 GB/s both ways
    "tpu-v4": (None, None, 32, 1200, 192, 300),  # Cloud TPU documentation
    "jetson-agx-orin-64gb": (42.5, 5.3, 64, 204.8, 60, 1.25),  # technical brief: 170 sparse INT8 TOPS / 4
}


@pytest.mark.parametrize("name", WORKED)
def test_figures_of_the_data_sheets(name):
    """Each device has the dense rates, memory, power limit and link that its data sheet prints."""
    device = accelerator(name)
    fp16, fp32, memory, bandwidth, power, per_direction = WORKED[name]
    for precision, rate in (("fp16", fp16), ("fp32", fp32)):
        if rate is None:
            assert precision not in device.precisions
        else:
            assert device.peak_flop_per_s(precision) == pytest.approx(rate * TERA)
    assert device.memory_bytes == memory * GIB
    assert device.bandwidth_bytes_per_s == pytest.approx(bandwidth * GIGA)
    assert device.power_limit_w == power
    assert device.link.bytes_per_s == pytest.approx(per_direction * GIGA)


@pytest.mark.parametrize(
    ("name", "precision", "rate"),
    [
        ("a100-sxm4-80gb", "tf32", 156),
        ("h100-sxm5-80gb", "tf32", 494.7),
        ("h100-sxm5-80gb", "fp8", 1978.9),
        ("rtx-4090", "fp8", 330.3),
        ("l4", "fp8", 242.5),
        ("mi100", "bf16", 92.3),  # half of its fp16 rate, unlike all later ones
        ("mi300x", "tf32", 653.7),
        ("tpu-v3", "bf16", 123),
        ("tpu-v4", "bf16", 275),
        ("tpu-v5e", "bf16", 197),
    ],
)
def test_other_rates_of_the_data_sheets(name, precision, rate):
    """TF32, bf16 and fp8 are the dense rates that the data sheet prints."""
    assert accelerator(name).peak_flop_per_s(precision) == pytest.approx(rate * TERA)


@pytest.mark.parametrize(
    ("name", "num_units", "flop_per_clock", "clock_mhz"),
    [
        ("v100-sxm2-16gb", 640, 128, 1530),
        ("t4", 320, 128, 1590),
        ("rtx-2080-ti", 544, 64, 1545),
        ("quadro-rtx-6000", 576, 128, 1770),
        ("rtx-3090", 328, 128, 1695),
        ("rtx-4090", 512, 128, 2520),
        ("rtx-5090", 680, 128, 2407),
        ("rtx-6000-ada", 568, 256, 2505),
        ("rtx-a6000", 336, 256, 1800),
        ("a10", 288, 256, 1695),
        ("a30", 224, 512, 1440),
        ("a40", 336, 256, 1740),
        ("a100-sxm4-40gb", 432, 512, 1410),
        ("l4", 232, 256, 2040),
        ("l40s", 568, 256, 2490),
        ("h100-pcie-80gb", 456, 1024, 1620),
        ("h100-sxm5-80gb", 528, 1024, 1830),
        ("jetson-agx-orin-64gb", 64, 512, 1300),
        ("mi100", 120, 1024, 1502),
        ("mi210", 104, 1024, 1700),
        ("mi250x", 220, 1024, 1700),
        ("mi250-gcd", 104, 1024, 1700),
        ("mi300x", 304, 2048, 2100),
    ],
)
def test_peak_follows_from_units_and_clock(name, num_units, flop_per_clock, clock_mhz):
    """The fp16 rate is matrix units x dense flop per clock with sums in fp32 x boost clock, within one percent."""
    derived = num_units * flop_per_clock * clock_mhz * 1e6
    assert accelerator(name).peak_flop_per_s("fp16") == pytest.approx(derived, rel=0.01)


@pytest.mark.parametrize(
    ("name", "bus_bits", "gbit_per_s"),
    [
        ("t4", 256, 10),
        ("rtx-2080-ti", 352, 14),
        ("quadro-rtx-6000", 384, 14),
        ("rtx-3090", 384, 19.5),
        ("rtx-4090", 384, 21),
        ("rtx-5090", 512, 28),
        ("rtx-6000-ada", 384, 20),
        ("rtx-a6000", 384, 16),
        ("a10", 384, 12.5),
        ("a40", 384, 14.5),
        ("l4", 192, 12.5),
        ("l40s", 384, 18),
        ("jetson-agx-orin-64gb", 256, 6.4),
        ("mi100", 4096, 2.4),
        ("mi210", 4096, 3.2),
        ("mi250x", 8192, 3.2),
    ],
)
def test_bandwidth_follows_from_bus_and_rate(name, bus_bits, gbit_per_s):
    """Memory bandwidth is the width of the bus x the rate of one pin."""
    assert accelerator(name).bandwidth_bytes_per_s == pytest.approx(bus_bits * gbit_per_s * GIGA / 8, rel=0.002)


@pytest.mark.parametrize("device", ALL, ids=names_of(ALL))
def test_every_figure_has_a_source(device):
    """Each number names a source with a title, and each source of the file is used by some number."""
    fields = {
        "memory.capacity_bytes",
        "memory.bandwidth_bytes_per_s",
        "power.limit_w",
        "link.bytes_per_s",
        *(peak.field for peak in device.peaks),
        *(["bridge.bytes_per_s"] if device.bridge else []),
    }
    assert {field for field, _ in device.cited} == fields
    assert {device.source_of(field).key for field in fields} == {source.key for source in device.sources}
    assert all(source.title for source in device.sources)
    for precision in device.precisions:
        assert device.peak_source(precision) in device.sources


@pytest.mark.parametrize("device", ALL, ids=names_of(ALL))
def test_a_document_names_its_publisher(device):
    """A source that is said to state a figure says who published it and when."""
    for source in device.sources:
        if source.basis == "document":
            assert source.publisher
            assert source.date[:4].isdigit()


@pytest.mark.parametrize("device", ALL, ids=names_of(ALL))
def test_narrower_formats_are_no_slower(device):
    """fp32 <= TF32 <= fp16 <= fp8, and fp16 is at most 32 times as fast as fp32."""
    rates = [device.peak_flop_per_s(name) for name in ("fp32", "tf32", "fp16", "fp8") if name in device.precisions]
    assert rates == sorted(rates)
    if {"fp32", "fp16"} <= set(device.precisions):
        assert device.peak_flop_per_s("fp16") <= 32 * device.peak_flop_per_s("fp32")


@pytest.mark.parametrize("device", ALL, ids=names_of(ALL))
def test_ridge_is_plausible(device):
    """A kernel turns from memory-bound to compute-bound between 5 and 1000 flop per byte on every device."""
    for precision in device.precisions:
        assert 5 < device.ridge_flop_per_byte(precision) < 1000


@pytest.mark.parametrize("device", ALL, ids=names_of(ALL))
def test_no_rate_is_sparse(device):
    """On every matrix unit here TF32 runs at half the fp16 rate and fp8 at twice it.

    A sparse figure in one of them would double or halve the ratio. The data sheets round by up to 2 percent.
    """
    ratio = pytest.approx(2, rel=0.025)
    if "tf32" in device.precisions:
        assert device.peak_flop_per_s("fp16") / device.peak_flop_per_s("tf32") == ratio
    if "fp8" in device.precisions:
        assert device.peak_flop_per_s("fp8") / device.peak_flop_per_s("fp16") == ratio


@pytest.mark.parametrize("name", ["rtx-2080-ti", "rtx-3090", "rtx-4090", "rtx-5090"])
def test_geforce_sums_in_fp32_at_half_rate(name):
    """GeForce tensor cores are twice as fast with sums in fp16; the rate that training gets is the other."""
    device = accelerator(name)
    fast = next(peak for peak in device.peaks if peak.accumulation == "fp16")
    assert fast.flop_per_s == pytest.approx(2 * device.peak_flop_per_s("fp16"), rel=0.002)
    assert device.peak("fp16").accumulation == "fp32"


@pytest.mark.parametrize("device", ALL, ids=names_of(ALL))
def test_links_are_whole_numbers_of_their_kind(device):
    """What a device has of a link is a whole multiple of one link of that kind, in one direction."""
    for owned in filter(None, (device.link, device.bridge)):
        count = owned.bytes_per_s / link(owned.kind).bytes_per_s
        assert count == pytest.approx(round(count))
        assert 1 <= round(count) <= 18


@pytest.mark.parametrize("name", ["t4", "rtx-4090", "rtx-5090", "a10", "l4", "l40s"])
def test_cards_without_nvlink(name):
    """These cards have neither NVLink nor a bridge for it: they reach one another over the bus."""
    device = accelerator(name)
    assert device.link.kind.startswith("pcie")
    assert device.bridge is None


def test_a_die_is_half_of_its_package():
    """One die of an MI250X has half of the package's rates, memory, bandwidth and power."""
    package, die = accelerator("mi250x"), accelerator("mi250x-gcd")
    assert die.memory_bytes == package.memory_bytes / 2
    assert die.bandwidth_bytes_per_s == package.bandwidth_bytes_per_s / 2
    assert die.power_limit_w == package.power_limit_w / 2
    for precision in package.precisions:
        assert die.peak_flop_per_s(precision) == pytest.approx(package.peak_flop_per_s(precision) / 2)


def test_the_generic_cpu_is_declared():
    """No figure of the placeholder pretends to come from a document."""
    assert {source.basis for source in accelerator("generic-cpu").sources} == {"declared"}


def test_there_are_enough_devices():
    """At least 36 devices of four vendors are described, each format by one of them."""
    assert len(ALL) >= 36
    assert {"nvidia", "amd", "google"} <= {device.vendor for device in ALL}
    assert {precision for device in ALL for precision in device.precisions} == set(RATED_PRECISIONS)


@pytest.mark.parametrize(
    ("name", "gbit_per_s"),
    [
        ("infiniband-hdr", 200),
        ("infiniband-ndr", 400),
        ("ethernet-10g", 10),
        ("ethernet-25g", 25),
        ("ethernet-100g", 100),
        ("ethernet-200g", 200),
        ("ethernet-400g", 400),
        ("roce-400g", 400),
    ],
)
def test_network_ports(name, gbit_per_s):
    """A port carries its line rate in each direction: bits / 8."""
    assert link(name).bytes_per_s == gbit_per_s * GIGA / 8


@pytest.mark.parametrize(("name", "gigatransfers"), [("pcie-3-x16", 8), ("pcie-4-x16", 16), ("pcie-5-x16", 32)])
def test_buses(name, gigatransfers):
    """Sixteen lanes of PCI Express carry 128 of every 130 bits."""
    assert link(name).bytes_per_s == pytest.approx(gigatransfers * GIGA * 16 * 128 / 130 / 8, rel=0.001)


def test_latencies_order_as_distances():
    """An empty message takes longer over the network than over the bus, and over TCP longer than over RDMA."""
    by_kind = {kind.kind: kind.latency_s for kind in links()}
    assert by_kind["nvlink-3"] < by_kind["pcie-4-x16"] < by_kind["ethernet-100g"]
    assert by_kind["infiniband-hdr"] < by_kind["ethernet-100g"]
    assert by_kind["roce-100g"] < by_kind["ethernet-100g"]


@pytest.mark.parametrize("node", node_types(), ids=names_of(node_types()))
def test_nodes_stay_within_their_rating(node):
    """Full devices and a busy host draw no more than the rated power, and every figure has a source."""
    for name in node.accelerators:
        total = node.accelerators_per_node * accelerator(name).power_limit_w + node.host_power_w
        assert total <= node.rated_power_w
        assert node.link_of(accelerator(name)) == accelerator(name).link
    assert {"power.host_w", "power.host_idle_w", "inter_node_link.bytes_per_s"} <= dict(node.cited).keys()
    assert {node.source_of(field).key for field, _ in node.cited} == {source.key for source in node.sources}


def test_network_shares_of_the_nodes():
    """A DGX-1 shares four 100 Gbit/s ports among eight devices; later ones have one port per device."""
    share = {node.name: node.inter_node_link.bytes_per_s for node in node_types()}
    assert share["dgx-1v"] == 4 * 100e9 / 8 / 8
    assert share["dgx-a100"] == 200e9 / 8
    assert share["dgx-h100"] == 400e9 / 8
