"""What a client does with a message, whatever carried it: load the weights, certify, or say in a sentence why not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcert._files.documents import parse
from fedcert.certification.run import certify
from fedcert.certification.seeds import seed_file_of
from fedcert.errors import DataProblem, FedcertError, ModelProblem, Refused
from fedcert.report import Report, Request

if TYPE_CHECKING:
    from fedcert.privacy.policy import Policy
    from fedcert.secagg.participant import ParticipantConfig

_LOG = logging.getLogger("fedcert")
REPORT, PRIVATE = "report", "private"
"""What a message asks for: a report, or a step of a private sum."""
ReplyTexts = dict[str, str]
"""A client's reply: its `name`, and its `report` (JSON), its message in a private sum (`said`), or its `trouble`."""
Weights = Callable[[], Mapping[str, Any] | None]
"""Gives the server's weights by name; None where it sent none."""


def reply_to(
    asked: str,
    request: str,
    message: str | None,
    model: Any,
    weights: Weights,
    data: Any,
    client: str,
    *,
    class_counts: bool = False,
    participant: ParticipantConfig | None = None,
    policy: Policy | None = None,
    **options: Any,
) -> ReplyTexts:
    """Reply to a server's message.

    Args:
        asked: `REPORT` or `PRIVATE`.
        request: as JSON.
        message: the server's in a private sum; None in the first stage, in which the client certifies.
        model: a torch module of the right architecture.
        weights: gives the server's.
        data: test examples, see `examples_of`; or a function that gives them.
        client: this client's name.
        class_counts: give counts per class in a report.
        participant: this client's keys and memory; with them it takes part in private sums, and in nothing else.
        policy: this client's rules about what leaves it; with a participant, in place of the participant's own.
        options: of `fedcert.certify`.
    """
    report = partial(_certified, request, model, weights, data, client=client, class_counts=class_counts, **options)
    if asked != PRIVATE and participant is None:
        return {"name": client} | _report_reply(report, policy)
    if asked != PRIVATE:
        return {"name": client, "trouble": "this client takes part in private sums only"}
    if participant is None:
        return {"name": client, "trouble": "this client gives reports, not private sums"}
    own = participant if policy is None else replace(participant, policy=policy)
    name = own.identity.name
    return {"name": name} | _private_reply(request, message, own, partial(report, client=name, class_counts=True))


def _report_reply(certified: Callable[[], Report], policy: Policy | None) -> ReplyTexts:
    try:
        if policy is not None and policy.signed_requests:
            raise Refused(
                "this client's policy wants requests that somebody in its keyring signed, which is checked for private "
                "sums and by fedcert certify, but not for reports over an engine"
            )
        report = certified()
        if policy is not None:
            policy.check_report(report.examples, report.class_procedure_counts is not None)
    except Exception as error:  # noqa: BLE001 (the server is to know at once, whatever went wrong)
        return {"trouble": str(error) if isinstance(error, FedcertError) else f"{type(error).__name__}: {error}"}
    return {"report": report.dumps()}


def _private_reply(
    request: str, message: str | None, participant: ParticipantConfig, certified: Callable[[], Report]
) -> ReplyTexts:
    from fedcert.secagg.participant import public_reason

    try:
        with participant.at_work(Request.from_json(parse(request, "the request")), certified) as site:
            return {"said": site.join() if message is None else site.reply(message)}
    except Exception as error:  # noqa: BLE001 (the server is to know at once, whatever went wrong)
        # This client's own log has the reason in full; the server gets what does not depend on data.
        _LOG.warning("this site does not go on in a private sum: %s", error)
        return {"trouble": public_reason(error)}


def _certified(request: str, model: Any, weights: Weights, data: Any, client: str, **options: Any) -> Report:
    asked = Request.from_json(parse(request, "the request"))
    state = weights()
    if state is None:
        raise ModelProblem("the server's message has no weights")
    loaded(model, state).eval()
    x, y = examples_of(data() if callable(data) else data)
    if options.get("seed") is None and options.get("seed_file") is None:
        options["seed_file"] = seed_file_of(client, asked.digest)
    return certify(model, x, y, client=client, request=asked, **options)


def loaded(model: Any, state: Mapping[str, Any]) -> Any:
    """A torch module with weights loaded into it.

    Raises:
        ModelProblem: they do not fit.
    """
    try:
        model.load_state_dict(state, strict=True)
    except (RuntimeError, AttributeError, TypeError) as error:
        raise ModelProblem(f"the weights do not fit the model: {' '.join(str(error).split())[:200]}") from None
    return model


def examples_of(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Test examples as arrays.

    Args:
        data: (x, y), or an iterable of batches (a DataLoader) of such pairs or of mappings with an image and a label.

    Raises:
        DataProblem: they are neither.
    """
    if isinstance(data, (tuple, list)) and len(data) == 2 and all(hasattr(part, "shape") for part in data):
        return np.asarray(data[0]), np.asarray(data[1])
    if not isinstance(data, Iterable):
        raise DataProblem(f"data must be (x, y) or batches of them, but is {type(data).__name__}")
    images, labels = [], []
    for batch in data:
        parts = list(batch.values()) if isinstance(batch, Mapping) else list(batch)
        if len(parts) != 2:
            raise DataProblem(f"a batch must hold an image and a label for each example, but has {len(parts)} parts")
        first, second = (np.asarray(part) for part in parts)
        if isinstance(batch, Mapping) and first.ndim == 1 < second.ndim:  # a mapping may name the label first
            first, second = second, first
        images.append(first)
        labels.append(second)
    if not images:
        raise DataProblem("there are no test examples: the data has no batch")
    return np.concatenate(images), np.concatenate(labels)
