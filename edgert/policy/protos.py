"""The protobuf messages of ONNX without the rest of its package.

`import onnx` takes half a second: a package of small float types that it brings along registers them with numpy.
Reading a model needs none of that, and every command that takes a policy would wait for it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from edgert.errors import importing

_MODULE: Final = "onnx.onnx_ml_pb2"


def onnx_protos() -> Any:
    """The module with `ModelProto`, `TensorProto` and the like; the same one that `import onnx` uses.

    Raises:
        UnsupportedError: onnx is not installed, or does not load here.
    """
    if _MODULE not in sys.modules:
        with importing("onnx", install="Run: pip install edgert"):
            package = find_spec("onnx")
            if package is None:
                raise ModuleNotFoundError("No module named 'onnx'", name="onnx")
            path = Path((package.submodule_search_locations or ["."])[0]) / f"{_MODULE.rpartition('.')[2]}.py"
            spec = spec_from_file_location(_MODULE, path) if path.is_file() else None
            if spec is None or spec.loader is None:
                import onnx

                return onnx
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[_MODULE] = module
    return sys.modules[_MODULE]
