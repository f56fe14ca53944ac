"""Names to hardware: by exact name or alias, or by the path of a file of the user's own.

A name is compared in lower case, with runs of spaces, underscores and hyphens as one hyphen, and otherwise
exactly: ``L40`` finds neither an L4 nor an L40S. A name that several devices could mean (``a100``) finds none,
and the error lists them.
"""

from __future__ import annotations

import difflib
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from wattlaw.errors import FileError, UnknownNameError, some_of
from wattlaw.hardware.files import (
    read_accelerator,
    read_aliases,
    read_embodied,
    read_links,
    read_node_type,
    read_regions,
)

if TYPE_CHECKING:
    from wattlaw.hardware.accelerator import Accelerator
    from wattlaw.hardware.embodied import Embodied
    from wattlaw.hardware.link import Link
    from wattlaw.hardware.node import NodeType
    from wattlaw.hardware.region import Region

# A path, not importlib.resources, whose import alone would take longer than the look-up: wheels are installed as files.
DATA = Path(__file__).with_name("data")

#: Words of full names that do not tell devices apart.
_VENDOR_WORDS = frozenset({"nvidia", "amd", "google", "tesla", "geforce", "quadro", "instinct", "gpu"})


def accelerator(name: str) -> Accelerator:
    """Find an accelerator by name, alias or file.

    Args:
        name: canonical name (``h100-sxm5-80gb``), an alias, among them what NVML prints (``NVIDIA H100 80GB HBM3``),
            or the path of a TOML file, which ends in ``.toml``.

    Raises:
        UnknownNameError: no device has exactly this name; lists those that it could mean, or the nearest.
        FileError: the file is not readable or not the description of an accelerator.

    >>> accelerator("Tesla T4").name
    't4'
    """
    if _is_file(name):
        return read_accelerator(Path(name), _links())
    return _shipped_accelerator(_find("accelerator", "accelerators", name))


def accelerators() -> tuple[Accelerator, ...]:
    """All accelerators that wattlaw describes, sorted by name."""
    return tuple(_shipped_accelerator(name) for name in _names("accelerators"))


def node_type(name: str) -> NodeType:
    """Find a node type by name, alias or file.

    Args:
        name: canonical name (``dgx-a100``), an alias, or the path of a TOML file, which ends in ``.toml``.

    Raises:
        UnknownNameError: no node type has exactly this name; lists the nearest.
        FileError: the file is not readable or not the description of a node type.

    >>> node_type("DGX A100").accelerators_per_node
    8
    """
    if _is_file(name):
        return read_node_type(Path(name), _links())
    return _shipped_node_type(_find("node type", "nodes", name))


def node_types() -> tuple[NodeType, ...]:
    """All node types that wattlaw describes, sorted by name."""
    return tuple(_shipped_node_type(name) for name in _names("nodes"))


def link(name: str) -> Link:
    """Find a kind of link by name: the rate of one link or port of it, in one direction.

    Raises:
        UnknownNameError: there is no such kind; lists the nearest.

    >>> link("InfiniBand HDR").bytes_per_s
    25000000000.0
    """
    kinds = _links()
    key = normalised(name)
    if key not in kinds:
        raise UnknownNameError.among("link", name, kinds)
    return kinds[key]


def links() -> tuple[Link, ...]:
    """All kinds of link, sorted by name."""
    return tuple(kind for _, kind in sorted(_links().items()))


def region(name: str) -> Region:
    """Find a region by its ISO 3166 code, name or alias. None is ever guessed.

    Args:
        name: ``DE``, ``US-CA``, ``Germany``, ``UK``.

    Raises:
        UnknownNameError: no region has exactly this name, or two have; lists those that it could mean.

    >>> region("DE").name, region("france").code, region("US-CA").scope
    ('Germany', 'FR', 'direct')
    """
    known = _regions()
    key = normalised(name)
    if (code := key.upper()) in known:
        return known[code]
    found = [one for one in known.values() if key in map(normalised, (one.name, *one.aliases))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownNameError(
            "region could mean several",
            given=repr(name),
            allowed=", ".join(f"{one.code} ({one.name})" for one in found),
            hint="one of the codes",
        )
    names = [*known, *(each for one in known.values() for each in (one.name, *one.aliases))]
    hint = "'wattlaw hardware list', or the figure of your own contract: carbon_g_per_kwh"
    raise UnknownNameError.among("region", name, names, hint=hint)


def regions() -> tuple[Region, ...]:
    """All regions whose electricity's carbon intensity is known, sorted by code."""
    return tuple(one for _, one in sorted(_regions().items()))


def embodied(accelerator_name: str) -> Embodied:
    """Published emissions of making a device and its share of a server with eight.

    Raises:
        UnknownNameError: no figure is known for this device, which is not the same as none; lists those with one.

    >>> embodied("h100-sxm5-80gb").device_kg
    164.0
    """
    known = _embodied()
    if accelerator_name not in known:
        raise UnknownNameError(
            "no published embodied emissions are known of this device",
            given=accelerator_name,
            allowed=", ".join(sorted(known)),
            hint="a figure of your own, in kg per device",
        )
    return known[accelerator_name]


def normalised(name: str) -> str:
    """The form in which names are compared.

    >>> normalised("NVIDIA  A100-SXM4_40GB")
    'nvidia-a100-sxm4-40gb'
    """
    return re.sub(r"[\s_-]+", "-", name.strip().lower())


def _is_file(name: str) -> bool:
    return name.lower().endswith(".toml")


def _find(kind: str, folder: str, name: str) -> str:
    key = normalised(name)
    # The file of a canonical name is read straight away; only aliases need the index.
    if key in _names(folder):
        return key
    index = _index(folder)
    if key in index:
        return index[key]
    candidates = _candidates(key, index)
    if len(candidates) > 1:
        raise UnknownNameError(
            f"{kind} name could mean several", given=repr(name), allowed=", ".join(candidates), hint="one of them"
        )
    nearest = [index[alias] for alias in difflib.get_close_matches(key, index, n=12, cutoff=0.4)]
    shown = list(dict.fromkeys(candidates + nearest))[:5]
    allowed = some_of(_names(folder), nearest=shown)
    hint = f"'wattlaw hardware list', or the path of your own file, my-{normalised(kind)}.toml"
    raise UnknownNameError(f"unknown {kind}", given=repr(name), allowed=allowed, hint=hint)


def _candidates(key: str, index: dict[str, str]) -> list[str]:
    """Devices one of whose names has all the telling words of ``key``: whole words, never parts of them."""
    words = set(key.split("-")) - _VENDOR_WORDS
    if not words:
        return []
    return sorted({stem for alias, stem in index.items() if words <= set(alias.split("-"))})


@functools.cache
def _index(folder: str) -> dict[str, str]:
    index: dict[str, str] = {}
    for stem in _names(folder):
        path = DATA / folder / f"{stem}.toml"
        for alias in (stem, *read_aliases(path)):
            if index.setdefault(normalised(alias), stem) != stem:
                raise FileError("alias belongs to two files", given=alias, allowed="one file").at(path)
    return index


@functools.cache
def _names(folder: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (DATA / folder).glob("*.toml")))


@functools.cache
def _shipped_accelerator(name: str) -> Accelerator:
    return read_accelerator(DATA / "accelerators" / f"{name}.toml", _links(), shipped=True)


@functools.cache
def _shipped_node_type(name: str) -> NodeType:
    return read_node_type(DATA / "nodes" / f"{name}.toml", _links(), shipped=True)


@functools.cache
def _links() -> dict[str, Link]:
    return read_links(DATA / "links.toml")


@functools.cache
def _regions() -> dict[str, Region]:
    return read_regions(DATA / "regions.toml")


@functools.cache
def _embodied() -> dict[str, Embodied]:
    return read_embodied(DATA / "embodied.toml")
