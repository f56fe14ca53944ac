"""Every verb says what it does, with an example, in its help and in the manual."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from wattlaw.cli import VERBS, cli

MANUAL = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def commands():
    """All commands with the words that call them."""
    context = click.Context(cli, info_name="wattlaw")
    for verb in VERBS:
        command = cli.get_command(context, verb)
        yield f"wattlaw {verb}", command
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                yield f"wattlaw {verb} {name}", command.get_command(context, name)


COMMANDS = dict(commands())


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_explains_itself(words, wattlaw):
    """It has a description and an example that calls it; --help prints both and fits 80 columns."""
    command = COMMANDS[words]
    assert len(command.help.splitlines()[0]) > 15
    assert words in command.epilog
    found = wattlaw(*words.split()[1:], "--help")
    assert found.code == 0
    assert words in found.out
    longest = max(found.out.replace(command.epilog.replace("\b\n", ""), "").splitlines(), key=len)
    assert len(longest) <= 80 or longest.strip() in command.epilog


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_has_help(words):
    """No option is left to be guessed."""
    for parameter in COMMANDS[words].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{words} {parameter.opts}"
            assert parameter.help.endswith((".", "...")), f"{words} {parameter.opts}: {parameter.help}"


@pytest.mark.parametrize("words", COMMANDS)
def test_the_manual_lists_every_command_and_option(words):
    """``docs/cli.md`` has a section per command that names each option; scripts/cli_reference.py writes it."""
    level = "#" * len(words.split())
    assert f"\n{level} {words}\n" in MANUAL
    section = MANUAL.split(f"\n{level} {words}\n", 1)[1].split("\n## ", 1)[0]
    for parameter in COMMANDS[words].params:
        if isinstance(parameter, click.Option):
            for name in parameter.opts:
                assert name in section, f"{words} {name}"


def test_the_readme_points_to_the_manual():
    """Who reads the first page finds every option."""
    assert "docs/cli.md" in README
