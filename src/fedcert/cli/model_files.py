"""What commands say of a model's files."""

from __future__ import annotations

from fedcert.cli.console import print_warning
from fedcert.errors import CallError


def check_weights_are_given(model: str, asked: str | None, identity: str) -> None:
    """Warn of a factory's module without a file of weights: they may be random.

    Args:
        model: the factory's name.
        asked: the model that a request is about; None without a request.
        identity: of the module as the factory made it.

    Raises:
        CallError: it is not the model that was asked for.
    """
    if asked is None:
        print_warning(
            f"no --weights are given, so the weights that {model} makes are used, random unless it loads them itself; "
            "give --weights FILE.safetensors"
        )
    elif asked != identity:
        raise CallError(
            f"no --weights are given, and the weights that {model} makes are not those of the request; give --weights "
            "FILE.safetensors"
        )
