"""`regard serve`: models over HTTP, with a web page."""

import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.app import app
from regard.cli.options import DeviceOption, EngineOption
from regard.cli.output import print_line
from regard.cli.pipeline import check_device, say_engine
from regard.errors import UserError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from regard.serve.guard import Access
    from regard.serve.registry import Registry
    from regard.serve.server import DrainConfig
    from regard.serve.suggestion_file import SuggestionFile

_LOCALHOST = "127.0.0.1"
_LOCAL_NAMES = (_LOCALHOST, "localhost", "::1")
_FoldersArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR…", help="Model directories; NAME=DIR serves one under that name, NAME=DIR1+DIR2 an ensemble."
    ),
]
_SuggestionsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Store translations that clients suggest at /suggest, as lines of JSON."),
]
_ProxyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS", help="Address or network of a reverse proxy whose X-Forwarded headers are right; repeatable."
    ),
]
_DrainDelayOption = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Seconds after SIGTERM in which requests are still accepted, so that load balancers notice.  [default: 5]",
    ),
]
_DrainSecondsOption = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds that running requests may then take before they are refused.  [default: 30]"),
]


@app.command()
def serve(
    folders: _FoldersArgument,
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
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Let web pages of this origin use the server; repeatable, * is any."),
    ] = None,
    proxy: _ProxyOption = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow an address that others can reach, without a token.")
    ] = False,
    queue: Annotated[
        int | None, typer.Option(min=1, help="How many texts of up to 2,000 characters may wait.  [default: 64]")
    ] = None,
    drain_delay: _DrainDelayOption = None,
    drain_seconds: _DrainSecondsOption = None,
    suggestions: _SuggestionsOption = None,
    engine: EngineOption = "torch",
    device: DeviceOption = None,
) -> None:
    """Serve models over HTTP, with a web page.

    Clients for LibreTranslate and for OpenAI work with it.
    """
    try:
        from regard.serve.app import make_app
    except ImportError:
        raise UserError("serving needs packages: pip install 'regard[serve]'") from None
    from regard.serve.limits import Limits
    from regard.serve.server import DrainConfig, exit_at_once
    from regard.serve.warm_up import warm_up

    token = _check_token(os.environ.get("REGARD_TOKEN") or None if token is None else token)
    address = _resolve(host, port)
    if host not in _LOCAL_NAMES and token is None and not insecure:
        raise UserError(f"--host {host} can be reached by others; give --token, or --insecure to let everybody in")
    access = _access(address, host, host_name or (), cors or (), token)
    proxies = [_parse_proxy(text) for text in proxy or ()]
    suggestion_file = _suggestion_file(suggestions)
    limits = Limits.parse(_given(queue=queue), where="--queue")
    drain = DrainConfig.parse(_given(delay=drain_delay, seconds=drain_seconds), where="--drain")
    signal.signal(signal.SIGTERM, exit_at_once)  # until the server runs
    registry = _load(folders, check_device(device), engine)
    asgi_app = make_app(registry, access, limits, suggestion_file)
    warm_up(asgi_app.state.dispatcher)
    listener = _listen(address, host)
    print_line(f"{', '.join(model.name for model in registry)}: {_url(host, listener.getsockname()[1])}")
    _run(asgi_app, drain, proxies, listener)


def _given(**options: float | None) -> dict[str, float]:
    """Return the options that were given; the others keep the defaults of their Config."""
    return {name: value for name, value in options.items() if value is not None}


def _check_token(token: str | None) -> str | None:
    """Refuse a token that no header can carry, and an empty one, which would let everybody in."""
    if token is not None and not (token.isascii() and token.isprintable() and token.split() == [token]):
        raise UserError("--token: use ASCII characters without spaces, for example what `openssl rand -hex 32` prints")
    return token


def _suggestion_file(path: Path | None) -> "SuggestionFile | None":
    from regard.serve.suggestion_file import SuggestionFile

    if path is None:
        return None
    file = SuggestionFile(path)
    file.check()
    return file


def _run(asgi_app: "FastAPI", drain: "DrainConfig", proxies: list[str], listener: socket.socket) -> None:
    from regard.serve.server import Server

    # By default the decoding thread yields to the thread that answers requests only every 5 ms, which is too slow.
    sys.setswitchinterval(0.0002)
    Server(asgi_app, drain, proxies).run(sockets=[listener])


def _load(folders: list[Path], device: str | None, engine: str) -> "Registry":
    from regard.serve.registry import Registry
    from regard.threads import one_thread

    with one_thread():  # torch's threads are for decoding, which another Python thread does
        registry = Registry.open(folders, device, engine)
    for model in registry:
        say_engine(model.pipeline, engine)
    return registry


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _resolve(host: str, port: int) -> tuple[str, int]:
    """Return the numeric address to listen on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        [(*_, address), *_] = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UserError(f"--host {host}: there is no such address; choose another") from None
    return str(address[0]), port


def _listen(address: tuple[str, int], host: str) -> socket.socket:
    try:
        return socket.create_server(address, family=socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    except OSError as error:
        raise UserError(
            f"--host {host} --port {address[1]}: cannot listen there ({error.strerror}); choose another"
        ) from None


def _access(
    address: tuple[str, int], host: str, host_names: Sequence[str], origins: Sequence[str], token: str | None
) -> "Access":
    from regard.serve.cross_origin import parse_origin
    from regard.serve.guard import Access
    from regard.serve.host_name import parse_host_name

    if _is_any(address[0]) and not host_names:
        raise UserError(
            f"--host {host} is every address of this machine; say which names clients use for it: --host-name NAME"
        )
    names = {*_LOCAL_NAMES, host, *host_names}
    for name in host_names:
        if parse_host_name(name) is None:
            raise UserError(f"--host-name {name}: give a host name or an address, without scheme and port")
    for origin in origins:
        if parse_origin(origin) is None:
            raise UserError(f"--cors {origin}: give an origin such as https://example.org or http://localhost:3000")
    return Access(frozenset(names), token, frozenset(filter(None, map(parse_origin, origins))))


def _is_any(address: str) -> bool:
    """Return whether the address stands for all addresses of the machine."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_unspecified


def _parse_proxy(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text)) if "/" in text else str(ipaddress.ip_address(text))
    except ValueError:
        raise UserError(f"--proxy {text}: give an address or a network such as 172.16.0.0/12") from None
