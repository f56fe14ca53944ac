"""``wattlaw app``."""

from __future__ import annotations

import click

from wattlaw.cli.options import Number

EPILOG = """\b
Examples:
  wattlaw app --open
  wattlaw app --port 9000
"""

#: Where the page is looked for: no other tool of this field listens there.
PORT = 8749


@click.command("app", epilog=EPILOG)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; other machines see others.")
@click.option("--port", type=Number(whole=True, at_least=0, at_most=65535), default=PORT, show_default=True,
              help="Port to listen on; 0 takes any that is free.")  # fmt: skip
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
def command(host: str, port: int, opened: bool) -> None:
    """Serve a page on this machine: choose a run, and see what it costs as you change it.

    It needs no network, keeps nothing, and listens on this machine only unless --host says otherwise: there is no
    password. Ctrl-C ends it. Its JSON interface is described at /openapi.json and in docs/app.md.
    """
    from wattlaw.app.server import serve

    def ready(address: str) -> None:
        if host not in ("127.0.0.1", "localhost", "::1"):
            click.echo("wattlaw: warning: other machines can open this page; there is no password", err=True)
        click.echo(f"wattlaw: {address} (Ctrl-C ends it)")
        if opened:
            click.launch(address)

    serve(host=host, port=int(port), ready=ready)
