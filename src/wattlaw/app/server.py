"""The server: routes, headers, limits. It listens on this machine only, unless it is told otherwise.

Work runs in lanes of threads, so that the loop that answers stays free, and nobody's prediction waits for another one's
search; what its asker no longer waits for is not begun. A fit runs in a process of its own, one at a time, and is
stopped when it takes too long.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wattlaw.app import bodies
from wattlaw.errors import FileError, MissingExtraError, WattlawError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

STATIC = Path(__file__).with_name("static")

#: Lane -> its threads: predictions, what stands beside them on the page, and searches.
LANES = {"predictions": 2, "parts": 1, "searches": 1}
#: Requests that may wait in a lane; beyond that the server says that it is busy.
MOST_WAITING = 100
#: Longest time that a fit may take.
FIT_SECONDS = 120.0

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

LOG = logging.getLogger("wattlaw.app")


class BusyError(WattlawError):
    """More is asked at once than is worked on; asking again later helps."""


class TooLargeError(WattlawError):
    """A body beyond the limit of its route."""


def create_app(*, hosts: Sequence[str] = ("localhost", "127.0.0.1", "[::1]")) -> Starlette:
    """Build the application.

    Args:
        hosts: names that requests may be addressed to; a page elsewhere that makes its visitor's browser ask this
            machine under a name of its own is refused.

    Raises:
        MissingExtraError: the web library is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles
    except ImportError:
        raise MissingExtraError.of("app", "the page") from None
    from wattlaw.app.openapi import ROUTES, description

    work = Work()
    routes = [
        *(Route(f"/api/{name}", _posting(work, *route), methods=["POST"]) for name, route in _answering().items()),
        Route("/api/fit", _fitting(work), methods=["POST"]),
        Route("/api/options", _getting(_options), methods=["GET"]),
        Route("/api/examples", _getting(_examples), methods=["GET"]),
        Route("/openapi.json", _getting(description), methods=["GET"]),
        Route("/", _page, methods=["GET"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    assert {route.path for route in routes if isinstance(route, Route)} >= set(ROUTES)
    return Starlette(
        routes=routes,
        exception_handlers={404: _not_there, 405: _not_there},
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)), Middleware(_Headers)],
        lifespan=work.lifespan,
    )


def serve(*, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until it is stopped.

    Args:
        host: address to listen on.
        port: 0 takes any that is free.
        ready: is called with the page's address once it can be opened.

    Raises:
        FileError: the address cannot be listened on.
        MissingExtraError: the web library is not installed.
    """
    import socket

    local = host in ("127.0.0.1", "localhost", "::1")
    app = create_app() if local else create_app(hosts=("*",))
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError.of("app", "the page") from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    shown = f"[{host}]" if ":" in host else host
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(128)
        except OSError as error:
            raise FileError("cannot listen there", given=error.strerror, hint="--port 0 for any that is free").at(
                f"{shown}:{port}"
            ) from error
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, ws="none",
                                timeout_keep_alive=30, limit_concurrency=1000)  # fmt: skip
        ready(f"http://{shown}:{listening.getsockname()[1]}/")
        with contextlib.suppress(KeyboardInterrupt):  # how a server is ended
            uvicorn.Server(config).run(sockets=[listening])


class Work:
    """Who computes: a few threads for what is short, one process at a time for fits."""

    def __init__(self) -> None:
        self.lanes: dict[str, Any] = {}
        self.fits: Any = None

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Make what belongs to the loop, and read what the first visitor would wait for."""
        import anyio
        from anyio import to_thread

        self.lanes = {name: anyio.CapacityLimiter(threads) for name, threads in LANES.items()}
        self.fits = anyio.Semaphore(1)
        await to_thread.run_sync(_warm)
        yield

    async def answer(self, lane: str, request: Request, compute: Callable[..., Any], *arguments: Any) -> bytes:
        """Compute an answer in a thread of a lane, as JSON, if its asker is still there when its turn comes.

        Raises:
            BusyError: too many wait already.
            ClientDisconnect: the asker went away.
        """
        from anyio import to_thread
        from starlette.requests import ClientDisconnect

        limiter = self.lanes[lane]
        if limiter.statistics().tasks_waiting >= MOST_WAITING:
            raise BusyError("too many questions at once", hint="asking again in a moment")
        async with limiter:
            if await request.is_disconnected():
                raise ClientDisconnect
            found: bytes = await to_thread.run_sync(_encoded, compute, arguments)
        return found

    async def fit(self, law: str, records: bytes) -> bytes:
        """Fit in a process of its own.

        Raises:
            BusyError: another fit is under way.
            WattlawError: what the fit was refused for.
        """
        from anyio import WouldBlock

        from wattlaw.app.worker import run_worker

        try:
            self.fits.acquire_nowait()
        except WouldBlock as error:
            raise BusyError("another fit is under way", hint="asking again in a moment") from error
        try:
            return await run_worker(law, records, seconds=FIT_SECONDS)
        finally:
            self.fits.release()


def _warm() -> None:
    from wattlaw.app import answers
    from wattlaw.law.bundled import bundled
    from wattlaw.law.loading import check_law

    answers.options()
    check_law(bundled())
    first = bodies.Run(
        model={"preset": "bert-base-uncased", "head": "classification"},
        recipe={"batch_size": 32, "seq_len": 128, "precision": "fp16", "steps": 1000},
        hardware={"gpu": "rtx-2080-ti"},
    )
    answers.predicted(bodies.Question(run=first))
    answers.compared(bodies.Comparison(run=first))
    answers.explained(bodies.Question(run=first))


def _encoded(answer: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    return msgspec.json.encode(answer(*arguments))


def _answering() -> dict[str, tuple[type[msgspec.Struct], str, str]]:
    """Routes that take a body: its kind, the function that answers, by name as its imports are heavy, and the lane."""
    return {
        "predict": (bodies.Question, "predicted", "predictions"),
        "config": (bodies.ConfigFile, "looked_at", "predictions"),
        "compare": (bodies.Comparison, "compared", "parts"),
        "explain": (bodies.Question, "explained", "parts"),
        "changes": (bodies.Question, "changed", "searches"),
        "plan": (bodies.PlanQuestion, "planned", "searches"),
    }


Endpoint = Callable[["Request"], Awaitable["Response"]]


def _posting(work: Work, kind: type[msgspec.Struct], name: str, lane: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        from wattlaw.app import answers

        async def answer() -> bytes:
            content = await _body(request, "application/json", bodies.MOST_BYTES)
            return await work.answer(lane, request, _answered, getattr(answers, name), kind, content)

        return await _responding(answer)

    return endpoint


def _answered(answer: Callable[[Any], Any], kind: type[msgspec.Struct], content: bytes) -> Any:
    return answer(bodies.read_body(kind, content))


def _fitting(work: Work) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        async def answer() -> bytes:
            content = await _body(request, "application/x-ndjson", bodies.MOST_RECORD_BYTES)
            return await work.fit(request.query_params.get("law", "step")[: bodies.MOST_LETTERS], content)

        return await _responding(answer)

    return endpoint


def _getting(found: Callable[[], Any]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        async def answer() -> bytes:
            return _encoded(found, ())

        return await _responding(answer)

    return endpoint


def _options() -> Any:
    from wattlaw.app import answers

    return answers.options()


def _examples() -> Any:
    from wattlaw.app.examples import examples

    return examples()


async def _page(request: Request) -> Response:
    from starlette.responses import FileResponse

    return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")


async def _body(request: Request, media_type: str, most_bytes: int) -> bytes:
    """Read a body of one media type, and stop at the limit.

    A form on another page cannot send this media type without asking first, which nobody here answers.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != media_type:
        raise FileError("another media type is needed", given=given or "none", allowed=media_type)
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most_bytes:
            raise TooLargeError(
                "too large", given=f"more than {most_bytes / 2**20:g} MiB", allowed=f"{most_bytes} bytes"
            )
    return bytes(content)


async def _responding(answer: Callable[[], Awaitable[bytes]]) -> Response:
    """Send the answer, or one line that says what to mend."""
    from starlette.requests import ClientDisconnect
    from starlette.responses import Response

    try:
        return Response(await answer(), media_type="application/json")
    except BusyError as error:
        return _refused(error, 503)
    except TooLargeError as error:
        return _refused(error, 413)
    except WattlawError as error:
        return _refused(error, 422)
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception:
        LOG.exception("a fault of wattlaw")
        return Response(_line("a fault of wattlaw", "fault"), status_code=500, media_type="application/json")


def _refused(error: WattlawError, status: int) -> Response:
    from starlette.responses import Response

    return Response(_line(str(error), type(error).__name__), status_code=status, media_type="application/json")


async def _not_there(request: Request, error: Exception) -> Response:
    """Say of an address or a method that there is none, in the form of every other refusal."""
    from starlette.exceptions import HTTPException
    from starlette.responses import Response

    assert isinstance(error, HTTPException)
    asked = f"{request.method} {request.url.path}"
    refusal = FileError(f"nothing answers {asked}", allowed="what /openapi.json lists")
    return Response(
        _line(str(refusal), type(refusal).__name__),
        status_code=error.status_code,
        headers=error.headers,
        media_type="application/json",
    )


def _line(text: str, kind: str) -> bytes:
    return msgspec.json.encode({"error": text, "kind": kind})


class _Headers:
    """Adds the headers that keep the page to itself."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                from starlette.datastructures import MutableHeaders

                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self.app(scope, receive, sending)
