"""Embodied emissions: published figures typed a second time, and none where nothing is published."""

from __future__ import annotations

import pytest

from wattlaw.errors import ConfigError, FileError, UnknownNameError
from wattlaw.hardware import Embodied, accelerators, embodied
from wattlaw.hardware.files import read_embodied
from wattlaw.hardware.lookup import DATA

#: Kilograms per device, and the title of the source in part.
PUBLISHED = {
    "a100-pcie-40gb": (181, "cycle de vie"),
    "a100-sxm4-40gb": (127.6, "2509.00093"),
    "a100-sxm4-80gb": (150, "BLOOM"),
    "b200": (2274 / 8, "HGX B200"),
    "h100-sxm5-80gb": (1312 / 8, "HGX H100"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures(name):
    """A device, an eighth of a server of 2,500 kg, six years of which 85 % are worked; each with its source."""
    found = embodied(name)
    kg, title = PUBLISHED[name]
    assert found.device_kg == kg
    assert title in found.sources[0].title
    assert any("BLOOM" in source.title for source in found.sources)
    assert found.host_kg == 2500 / 8
    assert found.life_h == pytest.approx(6 * 365.25 * 24 * 0.85)
    assert found.g_per_device_hour == pytest.approx((kg + 312.5) * 1000 / found.life_h)


def test_what_nobody_published_is_not_known():
    """And never 0: the error lists the devices that have a figure."""
    for device in accelerators():
        if device.name not in PUBLISHED:
            with pytest.raises(UnknownNameError, match="h100-sxm5-80gb"):
                embodied(device.name)


@pytest.mark.parametrize(
    "changed", [{"device_kg": 0}, {"device_kg": float("nan")}, {"host_kg": -1}, {"life_h": 0}, {"life_h": float("inf")}]
)
def test_figures_that_cannot_be_are_refused(changed):
    """A device takes something to make, and works for some time."""
    with pytest.raises(ConfigError):
        Embodied(**{"device_kg": 100.0, "host_kg": 0.0, "life_h": 1e4, **changed})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("value = 164,", "value = -1,", ["carbon_kg.value"]),
        ('source = "falk-2025"', 'source = "falk"', ["falk", "falk-2025"]),
        ("devices = 8", "devices = 0", ["host.devices"]),
        ("busy_share", "busy", ["life", "busy"]),
    ],
)
def test_bad_fields_are_named(tmp_path, old, new, words):
    """With the file."""
    path = tmp_path / "embodied.toml"
    text = (DATA / "embodied.toml").read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(FileError) as refused:
        read_embodied(path)
    for word in (str(path), *words):
        assert word in str(refused.value)
