"""What needs an engine is collected where the engine is: they have environments of their own.

Anything else that cannot be imported is an error: a test file that silently drops out would be missed by nobody.
"""

from __future__ import annotations

from importlib.util import find_spec

_ENGINES = {"flower": "flwr", "nvflare": "nvflare"}
collect_ignore_glob = [
    f"src/fedcert/engines/{folder}/*" for folder, package in _ENGINES.items() if find_spec(package) is None
]
if find_spec("flwr") is None:
    collect_ignore_glob.append("tests/function_grid.py")
