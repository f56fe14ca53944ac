"""How far long work is: on standard error where that is a terminal, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn


def terminal(*, shown: bool) -> Console | None:
    """Return what draws on standard error, ``None`` where nobody wants it or nobody would see it."""
    if not (shown and sys.stderr.isatty()):
        return None
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def bar(*columns: ProgressColumn | str, shown: bool) -> Iterator[Progress | None]:
    """Show a bar while something goes on.

    Args:
        columns: rich's, what stands beside the bar and the bar itself.
        shown: whether it is wanted.

    Yields:
        rich's progress, ``None`` where nobody watches.
    """
    console = terminal(shown=shown)
    if console is None:
        yield None
        return
    from rich.progress import Progress

    with Progress(*columns, console=console) as drawn:
        yield drawn
