"""Errors are one line that says what is wrong, what was given, what is allowed and what to try."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattlaw import errors
from wattlaw.errors import (
    ConfigError,
    DataError,
    FileError,
    FitError,
    MeterError,
    MissingExtraError,
    UnknownNameError,
    WattlawError,
    WattlawWarning,
)


def test_a_message_has_its_parts_in_order():
    """Place, what is wrong, given, allowed and hint, each behind the word that names it."""
    error = ConfigError("batch_size must be above zero", given=0, allowed="> 0", hint="batch_size = 32").at("run.toml")
    assert str(error) == "run.toml: batch_size must be above zero; given 0; allowed > 0; try batch_size = 32"


def test_parts_that_are_not_known_are_left_out():
    """A message without details is what is wrong and nothing else; a given 0 or empty text is not 'not known'."""
    assert str(DataError("no rows")) == "no rows"
    assert str(ConfigError("wrong", given=0)) == "wrong; given 0"
    assert str(ConfigError("wrong", given="", allowed=())) == "wrong; given ''; allowed ()"


def test_places_are_named_from_the_outside_in():
    """Each door adds itself in front; the error itself is returned, to be raised again."""
    error = FileError("not a number", given="'x'")
    assert error.at("batch_size") is error
    assert str(error.at("[recipe]").at("run.toml")).startswith("run.toml: [recipe]: batch_size: not a number; ")


@given(text=st.text(max_size=2000), place=st.text(max_size=20))
def test_a_message_is_one_line_whatever_is_in_it(text, place):
    """No value that a file can hold breaks the line or runs on without end."""
    message = str(ConfigError("wrong", given=text, allowed=text, hint="another").at(place))
    assert len(message.splitlines()) == 1
    assert len(message) < 550


@pytest.mark.parametrize(
    ("name", "nearest"), [("fdsp", "fsdp"), ("FSDP-GRADOP", "fsdp-grad-op"), ("dpp", "ddp"), ("Single", "single")]
)
def test_an_unknown_name_is_answered_with_the_nearest(name, nearest):
    """The name that was meant comes first, whatever the case of its letters."""
    error = UnknownNameError.among("strategy", name, ["single", "ddp", "fsdp", "fsdp-grad-op", "tp"])
    assert str(error).startswith(f"unknown strategy; given '{name}'; allowed {nearest}")


def test_a_name_like_no_other_is_answered_with_some_that_are_known():
    """Where nothing is near, a few known names show what a name looks like, and the hint is kept."""
    error = UnknownNameError.among("law", "qqqq", ["step", "paper"], hint="wattlaw fit --help")
    assert str(error) == "unknown law; given 'qqqq'; allowed paper, step; try wattlaw fit --help"


def test_few_names_are_all_listed_the_nearest_first():
    """Of three optimizers, the only one that is spelt alike would read as the only one there is."""
    error = UnknownNameError.among("optimizer", "nope", ["adamw", "sgd", "none"])
    assert error.allowed == "none, adamw, sgd"
    many = [f"law-{number:03}" for number in range(100)]
    assert UnknownNameError.among("law", "law-007", many).allowed.startswith("law-007, ")
    assert UnknownNameError.among("law", "law-007", many).allowed.endswith(" (nearest of 100)")
    assert UnknownNameError.among("law", "", many).allowed.endswith("law-004 (some of 100)")


def test_a_list_too_long_ends_behind_a_whole_name():
    """What is cut is a name, not a part of one that then looks like another."""
    names = [f"accelerator-{number:03}" for number in range(100)]
    shown = str(ConfigError("could mean several", allowed=", ".join(names)))
    assert shown.removesuffix("...").rpartition(", ")[2] in names


def test_names_that_differ_in_case_are_shown_as_they_are_written():
    """The answer is a name that can be typed as it stands."""
    assert UnknownNameError.among("accelerator", "a100-sxm", ["A100-SXM4"]).allowed == "A100-SXM4"


def test_a_failed_fit_carries_what_it_reached():
    """``partial`` is there beside the usual parts."""
    error = FitError("did not converge", partial={"slope": 1.0}, given="100 steps")
    assert error.partial == {"slope": 1.0}
    assert str(error) == "did not converge; given 100 steps"


def test_a_missing_extra_says_what_to_install():
    """The hint is a command."""
    error = MissingExtraError.of("measure", "running a sweep")
    assert str(error) == "running a sweep needs an optional part; try pip install 'wattlaw[measure]'"


def test_every_error_can_be_caught_by_the_root_and_is_drawn_in_the_tree():
    """One ``except`` at the door catches all, and the module's drawing lacks none."""
    leaves = (ConfigError, UnknownNameError, FileError, DataError, FitError, MeterError, MissingExtraError)
    ours = {kind for kind in WattlawError.__subclasses__() if kind.__module__ == WattlawError.__module__}
    assert ours == set(leaves)
    assert all(leaf.__name__ in errors.__doc__ for leaf in (*leaves, WattlawWarning))
    assert not issubclass(WattlawWarning, WattlawError)


def test_names_that_begin_with_what_was_typed_come_first():
    """A name cut short is answered with the names that it begins, however long they are."""
    error = UnknownNameError.among("model", "bert", ["roberta-base", "bert-base-uncased", "bert-large-uncased"])
    assert "allowed bert-base-uncased, bert-large-uncased, roberta-base" in str(error)
