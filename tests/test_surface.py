"""What wattlaw shows to the outside: names, the command line, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import wattlaw

EXAMPLE = Path(__file__).parents[1] / "examples" / "bert-base-sst2.toml"
HEAVY = {"torch", "transformers", "pandas", "matplotlib", "statsmodels", "altair", "sklearn", "rich"}


def loaded(code):
    """The top-level modules that are loaded after some code, in a process of its own."""
    script = f"import sys\n{code}\nprint('modules', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(found.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("name", wattlaw.__all__)
def test_every_public_name_can_be_imported(name):
    """It is where the table says, it is documented, and a wildcard import finds it."""
    found = getattr(wattlaw, name)
    assert found.__name__ == name
    assert found.__doc__
    assert name in dir(wattlaw)


def test_the_public_names_are_those_of_the_table():
    """``__all__``, the table of places, and what a wildcard import brings are the same, in order."""
    space = {}
    exec("from wattlaw import *", space)  # noqa: S102
    assert set(wattlaw.__all__) == set(space) - {"__builtins__"} == set(wattlaw._MODULES)  # noqa: SLF001
    assert wattlaw.__all__ == sorted(wattlaw.__all__)


def test_a_name_that_is_none_is_an_attribute_error():
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'energy'"):
        _ = wattlaw.energy


def test_importing_wattlaw_loads_nothing():
    """Not even numpy: the first use of a name pays for its part."""
    assert not loaded("import wattlaw") & {*HEAVY, "numpy", "scipy", "click", "msgspec"}
    assert "numpy" in loaded("import wattlaw; wattlaw.predict")


def test_predicting_from_the_shell_loads_nothing_heavy():
    """Cold starts are short because a prediction is arithmetic: numpy, click and msgspec."""
    command = f"sys.argv = ['wattlaw', 'predict', {str(EXAMPLE)!r}, '--json']\n"
    call = "from wattlaw.cli import main\ntry:\n    main()\nexcept SystemExit as leaving:\n    assert leaving.code == 0"
    modules = loaded(command + call)
    assert {"numpy", "msgspec"} <= modules
    assert not modules & {*HEAVY, "scipy"}
