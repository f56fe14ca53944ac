"""The command line: parse, call, render. No arithmetic lives here.

Exit codes: 0 done; 2 the user can mend it, one line on standard error says how; 1 a fault of wattlaw.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import click

from wattlaw.errors import WattlawError

#: Verb -> its module and one line of help. A module is imported only when its verb is called, so that
#: no verb pays for another one's libraries.
VERBS = {
    "predict": ("predict", "What a run will cost: energy, time, power and their terms, with an interval."),
    "fit": ("fit", "Fit a law to records."),
    "evaluate": ("evaluate", "How well a law predicts records that it has not seen."),
    "import": ("importing", "Turn public tables and other tools' logs into records."),
    "hardware": ("hardware", "Known accelerators and node types, each number with its source."),
}


class LazyGroup(click.Group):
    """A group of commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs in the order of use."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"wattlaw.cli.{VERBS[cmd_name][0]}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, summary) for verb, (_, summary) in VERBS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: wattlaw predict --model bert-base-uncased --gpu a100-sxm4-40gb --batch-size 32 --seq-len 128 "
    "--samples 67349 --epochs 3",
)
@click.version_option(package_name="wattlaw")
def cli() -> None:
    """Tell what training a Transformer will cost in energy, time, money and carbon, before it starts."""


def main() -> NoReturn:
    """Run the command line and leave with its exit code; bad input never shows a traceback."""
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        _leave("stopped", 130)
    except click.ClickException as error:
        _leave(_usage_line(error), 2)
    except WattlawError as error:
        _leave(str(error), 2)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong and nothing can be said any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _leave(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error), 2)
    except Exception as error:
        if os.environ.get("WATTLAW_TRACEBACK"):
            raise
        _leave(f"a fault of wattlaw ({type(error).__name__}: {error}); WATTLAW_TRACEBACK=1 shows where", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_line(error: click.ClickException) -> str:
    line = error.format_message().replace("\n", " ")
    context = getattr(error, "ctx", None)
    return f"{line} Try '{context.command_path} --help'." if context else line


def _leave(line: str, code: int) -> NoReturn:
    click.echo(f"wattlaw: {line}", err=True)
    sys.exit(code)
