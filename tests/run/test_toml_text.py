"""TOML as wattlaw writes it."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from wattlaw.run.toml_text import toml_text

_plain = st.one_of(
    st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)
)
_value = st.recursive(
    _plain,
    lambda part: st.one_of(st.lists(part, max_size=3), st.dictionaries(st.text(max_size=5), part, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=5), _value, max_size=4))
def test_reads_back_unchanged(mapping):
    """What is written is read back by the standard library as it was, whatever the keys and texts are."""
    assert tomllib.loads(toml_text(mapping)) == mapping


def test_unknown_is_left_out():
    """TOML has no null: a value that is not known is absent, also inside lists of tables."""
    assert tomllib.loads(toml_text({"a": None, "b": {"c": None}, "d": [{"e": None, "f": 1}]})) == {
        "b": {},
        "d": [{"f": 1}],
    }
