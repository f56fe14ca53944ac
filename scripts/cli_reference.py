"""Write ``docs/cli.md`` from the commands themselves; run it after changing a verb or an option."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from wattlaw.cli import VERBS, cli

TARGET = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """# The command line

    wattlaw VERB [OPTIONS]

Results go to standard output: a table for people, or JSON with `--json`. Doubts, progress and errors go to standard
error. Exit codes: 0 done; 2 something to mend, and one line says what was wrong, what was given, what is allowed and
what to try; 1 a fault of wattlaw (`WATTLAW_TRACEBACK=1` shows where); 130 stopped with Ctrl-C. Numbers may be written
as `1e6`. Names of GPUs and models are exact, but for the case of letters; a name that is not known is answered with the
nearest. Words can be completed by the shell: `eval "$(_WATTLAW_COMPLETE=bash_source wattlaw)"` (or `zsh_source`,
`fish_source`).

This page is written by `python scripts/cli_reference.py`.
"""


def reference() -> str:
    """Describe every verb: what it does, its arguments and options, an example."""
    context = click.Context(cli, info_name="wattlaw")
    sections = [HEAD]
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        sections += _sections(command, click.Context(command, parent=context, info_name=verb), level=2)
    return "\n".join(sections)


def _sections(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    yield f"{'#' * level} {context.command_path}\n"
    yield "\n".join(line.strip() for line in (command.help or "").strip().splitlines()) + "\n"
    if isinstance(command, click.Group):
        yield from _example(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _sections(inner, click.Context(inner, parent=context, info_name=name), level + 1)
        return
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"    {context.command_path} {pieces}\n"
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    rows = [row for option in options if (row := option.get_help_record(context)) is not None]
    yield "| option | meaning |\n|---|---|"
    yield "\n".join(f"| `{names.replace('|', ' or ')}` | {meaning} |" for names, meaning in rows) + "\n"
    yield from _example(command)


def _example(command: click.Command) -> Iterator[str]:
    lines = (command.epilog or "").replace("\b", "").strip().splitlines()
    shown = textwrap.dedent("\n".join(line.removeprefix("Example: ") for line in lines if line != "Examples:"))
    yield f"```console\n{shown}\n```\n"


def main() -> None:
    """Write the page."""
    TARGET.write_text(reference(), encoding="utf-8")
    print(f"{TARGET.name}: {len(VERBS)} verbs")


if __name__ == "__main__":
    main()
