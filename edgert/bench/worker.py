"""A process of its own for each provider, so that they share no memory, threads or crash: `run_worker`.

The child reads one JSON object, and prints JSON lines: what goes on, and at the end the figures or the refusal. Its
raw samples go into a file. What native libraries print goes to its stderr, of which the end is told where it dies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import edgert
from edgert.bench.measure import Request, measure
from edgert.errors import EdgertError, one_line

LIMIT_S: Final = 1_800.0
"""Longest that one provider may take: TensorRT builds engines for minutes, one for each number of rows."""
_TAIL_CHARS: Final = 2_000


def run_worker(
    request: Request, folder: Path, stage: Callable[[str], None], limit_s: float = LIMIT_S
) -> dict[str, Any]:
    """Measure in a child process.

    Args:
        request: what is measured.
        folder: an empty one for engines and samples (`samples.npz`).
        stage: told what is going on.
        limit_s: after which the child is ended.

    Returns:
        The figures; where there are none, `failed` says why.
    """
    # -P and the package's own place: the working folder holds files of strangers, which are not imported.
    root = str(Path(edgert.__file__).resolve().parents[1])
    program = f"import sys; sys.path.insert(0, {root!r}); from edgert.bench.worker import main; main()"
    result: dict[str, Any] = {}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603  # this Python and own words
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError), process.stdin:  # it is dead already, and its stderr says why
                json.dump({"request": request.document(), "folder": str(folder)}, process.stdin)
            for line in process.stdout:
                message = json.loads(line)
                if "stage" in message:
                    stage(message["stage"])
                else:
                    result = message
            process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            timer.cancel()
            if process.stdout is not None:
                process.stdout.close()
        if result:
            return result
        errors.seek(0, os.SEEK_END)
        errors.seek(max(0, errors.tell() - _TAIL_CHARS))
        tail = one_line(errors.read().decode(errors="replace"), _TAIL_CHARS)
        return {"failed": f"its process ended with status {process.returncode}: {tail or 'it said nothing'}"}


def main() -> None:
    """The child's part."""
    import numpy as np

    asked = json.load(sys.stdin)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to stderr

    def tell(message: dict[str, Any]) -> None:
        answer.write(json.dumps(message, allow_nan=False) + "\n")
        answer.flush()

    folder = Path(asked["folder"])
    try:
        figures, samples = measure(Request.of(asked["request"]), folder / "engines", lambda name: tell({"stage": name}))
    except EdgertError as error:
        tell({"failed": str(error)})
        return
    np.savez(folder / "samples.npz", **samples)  # type: ignore[arg-type]  # numbers alone, so nothing is pickled
    tell(figures)
