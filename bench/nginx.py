"""Runs nginx on this machine with deploy/nginx.conf, of which only the addresses are replaced."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SITE = Path(__file__).resolve().parents[1] / "deploy" / "nginx.conf"
NAMES = ("one", "two")
"""The replicas in deploy/nginx.conf, which listen on port 8000"""
_MAIN = """
{user}
daemon off;
worker_processes 2;
pid nginx.pid;
error_log errors.log warn;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include site.conf;
}}
"""


def find_nginx() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def run_nginx(ports: Sequence[int]) -> Iterator[int]:
    """Balance between replicas on these ports; yield the port of nginx."""
    program, port = find_nginx(), free_port()
    if program is None:
        raise SystemExit("nginx is not installed: apt-get install nginx")
    site = _replace_once(SITE.read_text(encoding="utf-8"), "listen 80;", f"listen 127.0.0.1:{port};")
    for name, replica in zip(NAMES, ports, strict=True):
        site = site.replace(f" {name}:8000 ", f" 127.0.0.1:{replica} ")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "site.conf").write_text(site, encoding="utf-8")
        main = _MAIN.format(user="user root;" if os.geteuid() == 0 else "")
        Path(folder, "nginx.conf").write_text(main, encoding="utf-8")
        command = [program, "-p", folder, "-c", "nginx.conf", "-e", "errors.log"]
        nginx = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, nginx, Path(folder, "errors.log"))
            yield port
        finally:
            nginx.terminate()
            nginx.wait(10)


def _replace_once(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise SystemExit(f"{SITE}: '{old}' must occur once")
    return text.replace(old, new)


def _wait_for(port: int, nginx: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(100):
        if nginx.poll() is not None:
            raise SystemExit(f"nginx did not start: {log.read_text(encoding='utf-8')}")
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("nginx did not start within five seconds")
