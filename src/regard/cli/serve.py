"""serve: models behind HTTP, with a page."""

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.app import Device, app, checked_device, say
from regard.errors import UserError

_HOME = "127.0.0.1"
_LOCAL = (_HOME, "localhost", "[::1]", "::1")


@app.command()
def serve(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Model directories; NAME=DIR gives one another name.")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; an address that others reach needs a token.")] = _HOME,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(help="Requests must bring it.  [default: the environment's REGARD_TOKEN, or none]")
    ] = None,
    host_name: Annotated[
        list[str] | None, typer.Option(help="A name under which the server may be asked; repeatable.")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let everybody who reaches it ask.")] = False,
    queue: Annotated[int | None, typer.Option(min=1, help="Texts that may wait.  [default: 64]")] = None,
    device: Device = None,
) -> None:
    """Serve models: a page, and APIs that LibreTranslate's and OpenAI's clients speak."""
    try:
        import uvicorn

        from regard.serve.app import make_app
    except ImportError:
        raise UserError("serving needs packages: pip install 'regard[serve]'") from None
    from regard.serve.guard import Access
    from regard.serve.header_timeout import Patient
    from regard.serve.limits import Limits
    from regard.serve.registry import Registry

    token = token or os.environ.get("REGARD_TOKEN") or None
    if host not in _LOCAL and token is None and not insecure:
        raise UserError(f"--host {host} lets others in; give --token, or --insecure if everybody may ask")
    # An address that stands for all of them has no name of its own.
    names = {*_LOCAL, host, *(host_name or ())} if host_name or host not in ("0.0.0.0", "::") else {"*"}
    registry = Registry.open(folders, checked_device(device))
    limits = Limits() if queue is None else Limits(queue=queue)
    served = make_app(registry, Access(frozenset(names), token), limits)
    # The decoding thread lets go of the interpreter every 5 ms by default; the one that answers cannot wait so long.
    sys.setswitchinterval(0.0002)
    listening = _listening(host, port)
    entry = f"http://{host}:{listening.getsockname()[1]}/" + ("?token=…" if token else "")
    say(f"{', '.join(model.name for model in registry)}: {entry}")
    config = uvicorn.Config(
        served, http=Patient, ws="none", log_level="warning", server_header=False, timeout_graceful_shutdown=10
    )
    uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(
            f"--host {host} --port {port}: cannot be listened on ({error.strerror}); choose another"
        ) from None
