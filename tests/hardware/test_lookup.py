"""Names find exactly one device, or none and an error that helps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw.errors import FileError, UnknownNameError, WattlawError
from wattlaw.hardware import accelerator, accelerators, link, links, lookup, node_type, node_types
from wattlaw.hardware.files import read_aliases

FOLDERS = {"accelerators": accelerators, "nodes": node_types}


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("Tesla P100-SXM2-16GB", "p100-sxm2-16gb"),
        ("Tesla P100-PCIE-16GB", "p100-pcie-16gb"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("Quadro RTX 6000", "quadro-rtx-6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A30", "a30"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("NVIDIA H100-SXM5-80GB", "h100-sxm5-80gb"),
        ("h100-sxm", "h100-sxm5-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA H200 NVL", "h200-nvl-141gb"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GB200", "gb200"),
        ("AMD Instinct MI100", "mi100"),
        ("AMD Instinct MI210", "mi210"),
        ("AMD Instinct MI300X", "mi300x"),
        ("TPU v4", "tpu-v4"),
        ("TPU v5 lite", "tpu-v5e"),
    ],
)
def test_names_that_drivers_print(printed, name):
    """The names that NVML and other drivers print, and handy short forms, find their device."""
    assert accelerator(printed).name == name


@pytest.mark.parametrize("written", ["NVIDIA A100-SXM4-40GB", " nvidia_a100  sxm4 40gb ", "NVIDIA a100-SXM4_40GB"])
def test_case_and_separators_do_not_matter(written):
    """Spaces, underscores, hyphens and case are one and the same in a name."""
    assert accelerator(written).name == "a100-sxm4-40gb"


@pytest.mark.parametrize(
    ("short", "candidates"),
    [
        ("a100", ["a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-80gb"]),
        ("NVIDIA A100", ["a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-80gb"]),
        ("A100 40GB", ["a100-pcie-40gb", "a100-sxm4-40gb"]),
        ("h100", ["h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm5-80gb"]),
        ("v100", ["v100-dgxs-32gb", "v100-pcie-16gb", "v100-pcie-32gb", "v100-sxm2-16gb", "v100-sxm2-32gb"]),
        ("h200", ["h200-nvl-141gb", "h200-sxm-141gb"]),
        ("P100", ["p100-pcie-16gb", "p100-sxm2-16gb"]),
        ("rtx 6000", ["quadro-rtx-6000", "rtx-6000-ada"]),
        ("AMD Instinct MI250X", ["mi250x", "mi250x-gcd"]),
    ],
)
def test_ambiguous_names_list_what_they_could_mean(short, candidates):
    """A name that several devices answer to finds none of them; the error lists exactly these."""
    with pytest.raises(UnknownNameError) as caught:
        accelerator(short)
    assert caught.value.allowed == ", ".join(candidates)


@pytest.mark.parametrize(
    "name",
    ["L40", "NVIDIA L40", "RTX A4000", "NVIDIA RTX A4000", "RTX 2080", "A10G", "MI300A", "B20", "A1", "H100 80", "4"],
)
def test_parts_of_names_find_nothing(name):
    """A name that is only part of another, or longer than another, is unknown: it never falls back on that one."""
    with pytest.raises(UnknownNameError, match="accelerator"):
        accelerator(name)


@pytest.mark.parametrize(("name", "nearest"), [("L40", "l40s"), ("RTX A4000", "rtx-a6000"), ("a100-sxm4-40g", "a100-")])
def test_unknown_names_list_the_nearest(name, nearest):
    """The error of an unknown name is one line that shows what was given and the nearest names."""
    with pytest.raises(UnknownNameError) as caught:
        accelerator(name)
    message = str(caught.value)
    assert repr(name) in message
    assert nearest in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["", "   ", "nvidia", "../t4", "accelerators/t4", "t4\0", "é", "x" * 5000])
def test_odd_names_are_unknown(name):
    """Empty, endless and path-like names are answered like any unknown name."""
    with pytest.raises(UnknownNameError):
        accelerator(name)


@given(st.text(max_size=40))
def test_any_text_finds_a_device_or_says_why_not(text):
    """No text crashes the look-up, and what it finds has that text as its name or alias."""
    try:
        found = accelerator(text)
    except WattlawError as error:
        outcome = str(error).splitlines()
        names = {outcome[0]}
    else:
        outcome = [lookup.normalised(text)]
        names = {lookup.normalised(name) for name in (found.name, *found.aliases)}
    assert len(outcome) == 1
    assert outcome[0] in names


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_two_files_share_a_name(folder):
    """Every canonical name and alias belongs to one file only, and is written only once in it."""
    owners: dict[str, str] = {}
    for path in (lookup.DATA / folder).glob("*.toml"):
        for alias in (path.stem, *read_aliases(path)):
            key = lookup.normalised(alias)
            assert owners.setdefault(key, path.stem) == path.stem, f"{alias}: {owners[key]} and {path.stem}"
        written = [alias.lower() for alias in read_aliases(path)]
        assert len(set(written)) == len(written)


def test_an_alias_of_two_files_is_refused(monkeypatch, tmp_path):
    """Two files that claim one alias are an error that names it: neither is silently preferred."""
    monkeypatch.setattr(lookup, "DATA", tmp_path)
    (tmp_path / "twins").mkdir()
    for stem in ("first", "second"):
        (tmp_path / "twins" / f"{stem}.toml").write_text('aliases = ["Twin"]\n[power]\n', encoding="utf-8")
    with pytest.raises(FileError, match=r"second\.toml: alias belongs to two files; given Twin"):
        lookup._index("twins")  # noqa: SLF001 - what every look-up by alias starts with


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_and_alias_finds_its_device(folder):
    """Looking up any canonical name, alias or full list gives the same values as the files."""
    find = {"accelerators": accelerator, "nodes": node_type}[folder]
    values = FOLDERS[folder]()
    assert [value.name for value in values] == sorted(path.stem for path in (lookup.DATA / folder).glob("*.toml"))
    for value in values:
        for alias in (value.name, value.full_name, *value.aliases):
            if alias != value.full_name or lookup.normalised(alias) in map(lookup.normalised, value.aliases):
                assert find(alias) is value
        assert value.aliases == read_aliases(lookup.DATA / folder / f"{value.name}.toml")


def test_canonical_names_are_in_normal_form():
    """The stem of each file is what its name normalises to, so that it is found without the index."""
    for value in (*accelerators(), *node_types()):
        assert lookup.normalised(value.name) == value.name


def test_a_canonical_name_reads_one_file(monkeypatch):
    """A device asked for by the stem of its file needs no index of the others."""
    monkeypatch.setattr(lookup, "_index", lambda folder: pytest.fail(f"indexed {folder}"))
    assert accelerator("a100-sxm4-40gb").name == "a100-sxm4-40gb"


def test_values_can_be_compared_and_hashed():
    """Two readings of one file are equal and have one hash; two devices differ."""
    first = accelerator("t4")
    lookup._shipped_accelerator.cache_clear()  # noqa: SLF001 - to read the same file again
    assert accelerator("t4") == first
    assert accelerator("t4") is not first
    assert len({first, accelerator("t4"), accelerator("l4")}) == 2


def test_links_by_name():
    """A kind of link is found by its exact name; others are unknown and list the nearest."""
    assert link("NVLink 3") == link("nvlink-3")
    assert {link(kind.kind) for kind in links()} == set(links())
    with pytest.raises(UnknownNameError, match="infiniband-hdr"):
        link("infiniband-hd")


def test_unknown_node_type_lists_the_nearest():
    """A wrong node type is answered with the nearest ones."""
    with pytest.raises(UnknownNameError, match=r"unknown node type; given 'dgx-a10'; allowed dgx-a100"):
        node_type("dgx-a10")
