"""Export a model as an .argosmodel, and ask Argos Translate and LibreTranslate for translations.

Both are installed into virtual environments of their own. Run it with the environment of regard:
python bench/argos.py MODEL_DIR TEXTS (a trained model, and a file of source texts)
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import regard
from regard.convert.export import export

TORCH = "torch==2.13.0"  # newer ones would bring gigabytes of CUDA
ARGOS = """
import json, sys
import argostranslate.package, argostranslate.translate
package, src, tgt = sys.argv[1:]
argostranslate.package.install_from_path(package)
texts = json.load(sys.stdin)
json.dump([argostranslate.translate.translate(text, src, tgt) for text in texts], sys.stdout)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--n", type=int, default=100, help="number of texts")
    parser.add_argument("--work", type=Path, help="folder for the virtual environments, kept for the next run")
    arguments = parser.parse_args()
    texts = arguments.texts.read_text(encoding="utf-8").splitlines()[: arguments.n]
    with tempfile.TemporaryDirectory() as temporary:
        compare(arguments.model, texts, Path(temporary), (arguments.work or Path(temporary)).absolute())


def compare(model: Path, texts: list[str], folder: Path, work: Path) -> None:
    translator = regard.load(model, device="cpu")
    src, tgt = translator.directions.first.languages
    package = folder / f"translate-{src}_{tgt}-1_0.argosmodel"
    exported = export(model, package, "argos", check=texts)
    print(f"{package.name}: {exported.n_bytes:,} bytes; {exported.verdict}")
    expected = [translation.text for translation in translator.translate(texts, beam=4, length_penalty=0.2)]
    # Both make folders in the home folder when they are imported.
    environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "PATH": os.environ["PATH"]}
    environment |= {"ARGOS_PACKAGES_DIR": str(folder / "packages"), "XDG_CACHE_HOME": str(folder / "cache")}

    python = install(work / "argos", "argostranslate==1.11.0")
    start = time.perf_counter()
    command = [python, "-c", ARGOS, str(package), src, tgt]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(done.stderr)
    report("Argos Translate", json.loads(done.stdout), expected, time.perf_counter() - start)

    python = install(work / "libretranslate", "libretranslate==1.9.6")
    start = time.perf_counter()
    received = ask_libretranslate(python, texts, src, tgt, environment)
    report("LibreTranslate", received, expected, time.perf_counter() - start)


def install(folder: Path, requirement: str) -> Path:
    """Make a virtual environment with a package, unless it is there; return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", TORCH, requirement], check=True)
        print(f"{requirement}: installed in {time.perf_counter() - start:.0f} s")
    return python


def ask_libretranslate(
    python: Path, texts: Sequence[str], src: str, tgt: str, environment: dict[str, str]
) -> list[str]:
    """Start the server, translate each text by a request of its own, and stop it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(python.parent / "libretranslate"), "--port", str(port), "--load-only", f"{src},{tgt}"]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, env=environment, cwd=environment["HOME"], stdout=log, stderr=log) as server,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            start = time.perf_counter()
            while not answers(f"{url}/languages"):
                if server.poll() is not None:
                    log.seek(0)
                    sys.exit(log.read().decode())
                time.sleep(0.5)
            with urllib.request.urlopen(f"{url}/languages") as response:
                names = [language["name"] for language in json.load(response)]
            print(f"LibreTranslate answers after {time.perf_counter() - start:.0f} s and has {', '.join(names)}")
            return [translate(url, text, src, tgt) for text in texts]
        finally:
            server.terminate()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def translate(url: str, text: str, src: str, tgt: str) -> str:
    data = urllib.parse.urlencode({"q": text, "source": src, "target": tgt}).encode()
    with urllib.request.urlopen(f"{url}/translate", data) as response:
        translated: str = json.load(response)["translatedText"]
    return translated


def report(name: str, received: Sequence[str], expected: Sequence[str], seconds: float) -> None:
    equal = sum(one == other for one, other in zip(received, expected, strict=True))
    print(f"{name}: {equal:,} of {len(expected):,} translations equal to regard's with beam 4, {seconds:.1f} s")
    different = [pair for pair in zip(expected, received, strict=True) if pair[0] != pair[1]]
    for ours, theirs in different[:3]:
        print(f"  {ours} | {theirs}")


if __name__ == "__main__":
    main()
