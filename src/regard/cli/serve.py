"""`regard serve`: models over HTTP, with a web page."""

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app
from regard.cli.options import DeviceOption, EngineOption
from regard.cli.output import print_line
from regard.cli.pipeline import check_device, say_engine
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.serve.registry import Registry

_LOCALHOST = "127.0.0.1"
_LOCAL_NAMES = (_LOCALHOST, "localhost", "[::1]", "::1")
_ANY_ADDRESS = ("0.0.0.0", "::")


@app.command()
def serve(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Model directories; NAME=DIR serves one under that name.")
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on; one that others can reach needs --token.")
    ] = _LOCALHOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(help="Every request must carry this token.  [default: $REGARD_TOKEN, or none]"),
    ] = None,
    host_name: Annotated[
        list[str] | None, typer.Option(help="A host name that requests may use for the server; repeatable.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow an address that others can reach, without a token.")
    ] = False,
    queue: Annotated[int | None, typer.Option(min=1, help="How many texts may wait.  [default: 64]")] = None,
    engine: EngineOption = "torch",
    device: DeviceOption = None,
) -> None:
    """Serve models over HTTP, with a web page.

    Clients for LibreTranslate and for OpenAI work with it.
    """
    try:
        import uvicorn

        from regard.serve.app import make_app
    except ImportError:
        raise UserError("serving needs packages: pip install 'regard[serve]'") from None
    from regard.serve.guard import Access
    from regard.serve.header_timeout import HeaderTimeoutProtocol
    from regard.serve.limits import Limits

    token = token or os.environ.get("REGARD_TOKEN") or None
    if host not in _LOCAL_NAMES and token is None and not insecure:
        raise UserError(f"--host {host} can be reached by others; give --token, or --insecure to let everybody in")
    # With an address that stands for all of the machine's addresses, the host name of a request is not known.
    names = {*_LOCAL_NAMES, host, *(host_name or ())} if host_name or host not in _ANY_ADDRESS else {"*"}
    registry = _load(folders, check_device(device), engine)
    limits = Limits() if queue is None else Limits(queue=queue)
    asgi_app = make_app(registry, Access(frozenset(names), token), limits)
    # By default the decoding thread yields to the thread that answers requests only every 5 ms, which is too slow.
    sys.setswitchinterval(0.0002)
    listener = _listen(host, port)
    address = f"http://{host}:{listener.getsockname()[1]}/" + ("?token=…" if token else "")
    print_line(f"{', '.join(model.name for model in registry)}: {address}")
    config = uvicorn.Config(
        asgi_app,
        http=HeaderTimeoutProtocol,
        ws="none",
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=10,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _load(folders: list[Path], device: str | None, engine: str) -> "Registry":
    from regard.serve.registry import Registry
    from regard.threads import one_thread

    with one_thread():  # torch's threads are for decoding, which another Python thread does
        registry = Registry.open(folders, device, engine)
    for model in registry:
        say_engine(model.pipeline, engine)
    return registry


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(
            f"--host {host} --port {port}: cannot listen there ({error.strerror}); choose another"
        ) from None
