"""The command line: parse, call, render. No arithmetic lives here.

Exit codes: 0 done; 2 the user can mend it, one line on standard error says how; 1 a fault of wattlaw; 130 stopped
with Ctrl-C.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from typing import NoReturn, TextIO

import click

from wattlaw.errors import UnknownNameError, WattlawError, WattlawWarning

#: Verb -> its module and one line of help. A module is imported only when its verb is called, so that
#: no verb pays for another one's libraries.
VERBS = {
    "predict": ("predict", "What a run will cost: energy, time, power and their terms, with an interval."),
    "plan": ("plan", "The best way to run a training under limits: strategy, GPUs, batches, power cap."),
    "compare": ("compare", "Several runs side by side, with the chance that one beats the other."),
    "explain": ("explain", "Where a run's energy and time go, and what would change them."),
    "fit": ("fit", "Fit a law to records."),
    "suggest": ("suggest", "Which few runs would teach the law most about a machine."),
    "evaluate": ("evaluate", "How well a law predicts records that it has not seen."),
    "import": ("importing", "Turn public tables and other tools' logs into records."),
    "doctor": ("doctor", "What can be measured on this machine, and what to do about what is missing."),
    "measure": ("measure", "Run a sweep on this machine and record it."),
    "probe": ("probe", "One minute that calibrates this machine."),
    "run": ("run", "Meter a command of yours and add its record to a store."),
    "report": ("report", "One page, or Markdown, of a prediction, a plan, a sweep or a fit."),
    "app": ("app", "The same in a browser, on this machine."),
    "hardware": ("hardware", "Known accelerators and node types, each number with its source."),
}

#: What the shell sets to ask for the words that can follow.
COMPLETION = "_WATTLAW_COMPLETE"


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or name those that are spelt like it."""
        if not args[0].startswith("-") and args[0] not in VERBS:
            raise UnknownNameError.among("command", args[0], VERBS, hint="wattlaw --help")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, summary) for verb, (_, summary) in VERBS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Example:
  wattlaw predict --model bert-base-uncased --head classification --gpu a100-sxm4-40gb \\
      --batch-size 32 --seq-len 128 --samples 67349 --epochs 3

'wattlaw COMMAND --help' shows more. Exit codes: 0 done, 2 something to mend (one line says what), 1 our fault.
""",
)
@click.version_option(package_name="wattlaw")
def cli() -> None:
    """Tell what training a Transformer will cost in energy, time, money and carbon, before it starts."""


def main() -> NoReturn:
    """Run the command line and leave with its exit code; bad input never shows a traceback."""
    _print_whatever_is_named()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _tell_warning
            warnings.simplefilter("always", WattlawWarning)
            _use_one_thread(sys.argv[1:])
            code = _run(sys.argv[1:])
            _finish_output()
    except (KeyboardInterrupt, click.exceptions.Abort):
        _leave("stopped", 130)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        sys.exit(0)
    except click.ClickException as error:
        _leave(_usage_line(error), 2)
    except WattlawError as error:
        _leave(str(error), 2)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong and nothing can be said any more.
        _forget_output()
        sys.exit(0)
    except OSError as error:
        _forget_output()
        _leave(f"{error.filename or 'standard output'}: {error.strerror or error}", 2)
    except Exception as error:
        if os.environ.get("WATTLAW_TRACEBACK"):
            raise
        _leave(*_fault(error))
    sys.exit(code)


def _use_one_thread(arguments: list[str]) -> None:
    """Have the linear algebra of laws use one thread, unless the user says otherwise, before numpy is imported.

    Its matrices are small: two threads take twice as long, as they wait for each other. What measures is left alone.
    """
    if not {*arguments} & {"measure", "run", "probe"}:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _run(arguments: list[str]) -> int:
    """Run one command line; as ``click.Command.main`` without its own ways to leave."""
    if instruction := os.environ.get(COMPLETION):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "wattlaw", COMPLETION, instruction)
    try:
        with cli.make_context("wattlaw", arguments) as context:
            code = cli.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    return code if isinstance(code, int) else 0


def _usage_line(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" Try '{context.command_path} --help'." if context else ""
    return " ".join(f"{error.format_message()}{hint}".split())


def _tell_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Say a warning in one line, in place of Python's two with a place in our source."""
    kind = "warning" if issubclass(category, WattlawWarning) else f"warning ({category.__name__})"
    click.echo(f"wattlaw: {kind}: {' '.join(str(message).split())}", err=True)


def _print_whatever_is_named() -> None:
    """Write letters that the terminal does not have as their codes, where writing them would fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _finish_output() -> None:
    if sys.stdout is not None:  # as where the shell closed it: `>&-`
        sys.stdout.flush()


def _fault(error: Exception) -> tuple[str, int]:
    """Say what went wrong that nobody foresaw, and whose fault it is: a name that no file can have is the user's."""
    if isinstance(error, ValueError) and "null byte" in str(error):
        return "a file's name cannot hold a null byte", 2
    return f"a fault of wattlaw ({type(error).__name__}: {error}); WATTLAW_TRACEBACK=1 shows where", 1


def _forget_output() -> None:
    """Send what is still in the buffer nowhere: at exit, Python would fail to write it once more."""
    with contextlib.suppress(OSError, ValueError):  # where standard output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave(line: str, code: int) -> NoReturn:
    click.echo(f"wattlaw: {line}", err=True)
    sys.exit(code)
