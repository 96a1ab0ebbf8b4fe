"""The client's side: what a script of NVFlare's client API sends back."""

from __future__ import annotations

from typing import Any

import nvflare.client as flare
from nvflare.app_common.abstract.fl_model import FLModel

from fedcert.engines.client import answered

KEY = "fedcert"


def answer(
    received: FLModel, model: Any, data: Any, *, client: str | None = None, class_counts: bool = False, **options: Any
) -> FLModel | None:
    """Answer a server's certification message: send what this gives. None where the message asks for no certification.

    Args:
        received: what `flare.receive()` gave.
        model: a torch module of the right architecture.
        data: this client's test examples: (x, y), a DataLoader, or a function that gives either.
        client: this client's name; its site's where None, which is the only one that the server takes.
        class_counts: tell counts per class too: more precise, reveals more.
        options: of `fedcert.certify`; and `policy`, this client's rules about what leaves it
            (`fedcert.privacy.policy.Policy`).
    """
    request = (received.meta or {}).get(KEY)
    if not isinstance(request, str):
        return None

    def weights() -> Any:
        import torch

        found = received.params
        return {name: torch.as_tensor(value) for name, value in found.items()} if found else None

    name = client or flare.get_site_name()
    said = answered(request, model, weights, data, name, class_counts=class_counts, **options)
    # Numbers that NVFlare may look at; the words are in the meta data.
    return FLModel(metrics={"certified": float("report" in said)}, meta={KEY: said})
