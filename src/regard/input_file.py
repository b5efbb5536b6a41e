"""Whether a path that the user names can be read as a file."""

import stat
from pathlib import Path

from regard.errors import UserError


def check_input_file(path: Path, read_once: bool = True) -> None:
    """Refuse a path that is missing, a folder or a device.

    A pipe, such as `<(zcat corpus.gz)` in a shell, can be read once only: it is refused unless `read_once` is set.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise UserError(f"{str(path)!r}: no such file; a path cannot contain a NUL character") from None
    if stat.S_ISDIR(mode):
        raise UserError(f"{path}: is a folder; name a file")
    if stat.S_ISFIFO(mode) and not read_once:
        raise UserError(f"{path}: is a pipe, which can be read once only; write its content to a file first")
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        raise UserError(f"{path}: is a {'socket' if stat.S_ISSOCK(mode) else 'device'}; name a file")
