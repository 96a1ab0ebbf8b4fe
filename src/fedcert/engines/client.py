"""What a client does with a message, whatever carried it: load the weights, certify, or say in a sentence why not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcert._files.documents import parse
from fedcert.certification.data.batches import examples_in
from fedcert.certification.run import certify
from fedcert.certification.seeds import seed_file_of
from fedcert.engines.credentials import Credentials
from fedcert.errors import FedcertError, ModelProblem, Refused
from fedcert.privacy.askers import asker_of
from fedcert.privacy.policy import Policy
from fedcert.report import Report, Request

if TYPE_CHECKING:
    from fedcert.secagg.participant import ParticipantConfig

_LOG = logging.getLogger("fedcert")
REPORT, PRIVATE = "report", "private"
"""What a message asks for: a report, or a step of a private sum."""
ReplyTexts = dict[str, str]
"""A client's reply: its `name`, and its `report` (JSON), its message in a private sum (`answer`), or its `trouble`."""
Weights = Callable[[], Mapping[str, Any] | None]
"""Gives the server's weights by name; None where it sent none."""


def unable(name: str, error: FedcertError) -> ReplyTexts:
    """The reply of a client that cannot use its keys: without them it sends nothing else."""
    _LOG.warning("this client, %s, cannot use its keys: %s", name, error)
    return {"name": name, "trouble": str(error)}


def reply_to(
    asked: str,
    request: str,
    message: str | None,
    model: Any,
    weights: Weights,
    data: Any,
    client: str,
    *,
    credentials: Credentials | None = None,
    class_counts: bool | None = None,
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
        data: test examples, see `examples_in`; or a function that gives them.
        client: this client's name; that of its keys, where it has some.
        credentials: what it signs its report with, and whose requests it answers.
        class_counts: give counts per class in a report; where None, if the request asks for them and the policy allows.
        participant: this client's keys and memory; with them it takes part in private sums, and in nothing else.
        policy: this client's rules about what leaves it; with a participant, in place of the participant's own.
        options: of `fedcert.certify`.
    """
    rules = Policy() if policy is None else policy
    report = partial(
        _certified, model=model, weights=weights, data=data, client=client, class_counts=class_counts, policy=rules,
        **options,
    )  # fmt: skip
    if asked != PRIVATE and participant is None:
        return {"name": client} | _report_reply(request, credentials or Credentials(), report, policy)
    if asked != PRIVATE:
        return {"name": client, "trouble": "this client takes part in private sums only"}
    if participant is None:
        return {"name": client, "trouble": "this client gives reports, not private sums"}
    own = participant if policy is None else replace(participant, policy=policy)
    name = own.identity.name
    return {"name": name} | _private_reply(request, message, own, partial(report, client=name, class_counts=True))


def participant(
    keys: str | Path, trusted: str | Path, memory: str | Path, *, policy: str | Path | None = None
) -> ParticipantConfig:
    """What a client needs to take part in private sums, for `answer(..., participant=...)`.

    Args:
        keys: the file of its secret keys (`fedcert keys new`).
        trusted: the file of its keyring: all clients on the roster, and the coordinator.
        memory: a folder that remembers which sums it was in.
        policy: the file of its rules about what leaves it; the default rules where None.

    Raises:
        CallError: a file that is not there.
        MissingExtra: cryptography is not installed.
    """
    from fedcert.secagg.participant import ParticipantConfig

    return ParticipantConfig.read(keys, trusted, memory, policy=policy)


def _report_reply(
    request: str, credentials: Credentials, certified: Callable[[Request], Report], policy: Policy | None
) -> ReplyTexts:
    try:
        if policy is not None and policy.signed_requests and credentials.keyring is None:
            raise Refused(
                "this client's policy wants requests that a member of its keyring signed, but it was given no keyring "
                "(trusted=)"
            )
        asked = Request.from_json(parse(request, "the request"))
        asker_of(asked, credentials.keyring)
        report = certified(asked)
        if policy is not None:
            policy.check_report(report.examples, report.class_procedure_counts is not None)
        if credentials.identity is not None:
            from fedcert.privacy.keys.signing import sign

            report = sign(report, credentials.identity)
    except Exception as error:  # noqa: BLE001 (the server is to know at once, whatever went wrong)
        return {"trouble": str(error) if isinstance(error, FedcertError) else f"{type(error).__name__}: {error}"}
    return {"report": report.dumps()}


def _private_reply(
    request: str, message: str | None, participant: ParticipantConfig, certified: Callable[[Request], Report]
) -> ReplyTexts:
    from fedcert.secagg.participant import public_reason

    try:
        asked = Request.from_json(parse(request, "the request"))
        with participant.at_work(asked, partial(certified, asked)) as site:
            return {"answer": site.join() if message is None else site.reply(message)}
    except Exception as error:  # noqa: BLE001 (the server is to know at once, whatever went wrong)
        # This client's own log has the reason in full; the server gets what does not depend on data.
        _LOG.warning("this site does not go on in a private sum: %s", error)
        return {"trouble": public_reason(error)}


def _certified(
    asked: Request,
    *,
    model: Any,
    weights: Weights,
    data: Any,
    client: str,
    class_counts: bool | None,
    policy: Policy,
    **options: Any,
) -> Report:
    if class_counts is None:
        class_counts = policy.gives_class_counts(asked)
    state = weights()
    if state is None:
        raise ModelProblem("the server's message has no weights")
    loaded(model, state).eval()
    x, y = examples_in(data() if callable(data) else data)
    if options.get("seed") is None and options.get("seed_file") is None:
        options["seed_file"] = seed_file_of(client, asked.digest)
    return certify(
        model, x, y, client=client, request=asked, class_counts=class_counts, **{"progress": False, **options}
    )


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
