"""Host names of the server: parsed exactly, compared without case."""

import re
from ipaddress import AddressValueError, IPv6Address

_HOST = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)


def parse_host(host: str) -> str | None:
    """Return the name in a Host header, without its port, in the form in which names are compared; None if invalid."""
    if (match := _HOST.fullmatch(host.lower())) is None or int(match["port"] or 0) > 65_535:
        return None
    return match["name"] or _bracketed(match["address"])


def parse_host_name(name: str) -> str | None:
    """Return a host name or address in the form in which names are compared; None if it is neither."""
    if ":" in name:
        return _bracketed(name.removeprefix("[").removesuffix("]"))
    return parse_host(name)  # which has no port


def _bracketed(address: str) -> str | None:
    try:
        return f"[{IPv6Address(address).compressed}]"
    except AddressValueError:
        return None
