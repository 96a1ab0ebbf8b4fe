"""fedcert private: sums of which no site's own counts can be read, over a shared folder."""

from __future__ import annotations

import secrets
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from fedcert._files.paths import display_path, kind_of_path
from fedcert.cli import options
from fedcert.cli.console import print_json, print_note, print_result, print_status, working
from fedcert.cli.inputs import files_among, from_options
from fedcert.cli.signing import check_asker
from fedcert.coordination.requesting import privacy_budget
from fedcert.errors import CallError, preview
from fedcert.privacy.dp.accounting import spend
from fedcert.privacy.dp.mechanism import describe_budget
from fedcert.privacy.policy import read_policy
from fedcert.report import Report, Request, check_writable, read_record, write_whole
from fedcert.report.privacy import ALONE

app = Typer(
    help="Private sums: the coordinator learns what all sites have together, and nothing of any one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def join(
    report: Annotated[Path, Argument(help="This site's report (.json), with --class-counts; it stays here.")],
    request: Annotated[Path, Option(help="The coordinator's request (.json), signed.")],
    keys: Annotated[Path, Option(help="This site's secret keys (.json).")],
    trusted: Annotated[Path, Option(help="A keyring (.json) with everybody on the roster and the coordinator.")],
    folder: Annotated[Path, Option(help="The folder that sites and coordinator share.")],
    memory: Annotated[Path, Option(help="A folder of this site's own, for what it must remember.")],
    fewest: Annotated[int, Option(min=3, help="The fewest sites that a sum may be over.")] = 3,
    wait: Annotated[float, Option(min=0, help="Seconds to wait for each next step.")] = 3600.0,
    once: Annotated[bool, Option(help="Do what can be done now, and come back later.")] = False,
    policy: options.PolicyFile = None,
    dry_run: Annotated[bool, Option(help="Show exactly what would enter the sum, and send nothing.")] = False,
) -> None:
    """Take part in a private sum. A site that is stopped goes on where it was."""
    from fedcert.engines.shared_folder import take_part
    from fedcert.privacy.keys.identity import read_identity
    from fedcert.privacy.keys.keyring import read_keyring
    from fedcert.privacy.state_store import FolderStore
    from fedcert.rounds.validation import AnswerValidator
    from fedcert.secagg.participant import Participant
    from fedcert.secagg.vectors import VectorLayout

    asked: Request = read_record(request, Request)
    own: Report = read_record(report, Report)
    identity, keyring = read_identity(keys), read_keyring(trusted)
    if own.client != identity.name:
        raise CallError(f"the report is of {preview(own.client)}, but the keys are those of {preview(identity.name)}")
    AnswerValidator(asked).check(own)
    if asked.late(datetime.now(UTC)):
        raise CallError(f"the request's deadline {asked.deadline} has passed; ask the coordinator for a new request")
    rules = read_policy(policy)
    rules.check_private(own, asked)
    check_asker(asked, trusted)
    if dry_run:
        print_json(VectorLayout(asked).contribution(own))
        print_note("this would enter the sum, under masks that no single party can remove; nothing was sent")
        return
    VectorLayout(asked).pack(own)  # what is wrong here is found before anything is in the shared folder
    fewest = max(fewest, rules.fewest_clients)
    if kind_of_path(memory) is None:
        print_note(f"makes the folder {memory}; keep it for good: a site that forgets can be asked twice over others")
    held = FolderStore(memory)

    def begin() -> Participant:
        site = Participant(asked, identity, keyring, held, lambda: own, policy=rules, fewest=fewest)
        if site.begun not in (None, own):
            print_note(f"{identity.name} began this sum with another report; that one stays in it, not {report}")
        if asked.private is not None and asked.private.budget is not None:
            site.join()
            print_note(str(site.account))
        return site

    try:
        done = take_part(folder, identity.name, begin, seconds=wait, once=once, notify=print_status)
    finally:
        held.close()
    if done:
        print_result(f"{identity.name} has done its part; its own numbers never left unmasked.")


def add_up(
    request: Annotated[Path, Option(help="The request (.json).")],
    trusted: Annotated[Path, Option(help="A keyring (.json) with everybody on the roster.")],
    folder: Annotated[Path, Option(help="The folder that sites and coordinator share.")],
    run: Annotated[Path, Option(help="A folder of the coordinator's own, to go on after a stop.")],
    out: Annotated[Path, Option(help="The sums to write (.json), for fedcert estimate.")],
    patience: Annotated[float, Option(min=0, help="Seconds for each step after all have joined.")] = 600.0,
    once: Annotated[bool, Option(help="Do what can be done now, and come back later.")] = False,
    go_on: Annotated[bool, Option(help="With --once: go on without those who have not answered.")] = False,
) -> None:
    """Add up what the sites send under masks."""
    from fedcert.engines.shared_folder import FolderTransport
    from fedcert.privacy.keys.keyring import read_keyring
    from fedcert.rounds.private import private_sums

    check_writable(out, (".json",), files_among(request, trusted))
    if go_on and not once:
        raise CallError("--go-on goes with --once: without it, --patience says how long to wait")
    asked: Request = read_record(request, Request)
    if not once and asked.deadline is None:
        print_note(
            f"waits until all {len(asked.roster or ())} sites have joined: the request has no deadline. To go on "
            "without some, stop, and run with --once --go-on"
        )
    with working("adding up what the sites send"):
        sums, missing = private_sums(
            FolderTransport(folder), asked, read_keyring(trusted), folder=run, patience=patience, once=once, go_on=go_on
        )
    for name, why in missing.items():
        print_status(f"{'waiting for' if sums is None else 'not in the sum'}: {name}: {why}")
    if sums is None:
        return
    write_whole(out, sums.dumps())
    left_out = [name for name, count in zip(sums.classes, sums.label_counts, strict=True) if not count]
    if sums.fewest_holders is not None and left_out:
        named = ", ".join(left_out[:10]) + ("…" if len(left_out) > 10 else "")
        print_note(f"fewer than {sums.fewest_holders} sites, if any, hold {named}: nothing of these is in the sums")
    mean, most = sums.examples / max(sums.contributors, 1), sums.most_examples or 0
    each = f"{mean:,.0f} each on average, of at most {most:,}"
    print_result(f"Wrote {out}: the sums of {sums.contributors} sites, {sums.examples:,} examples ({each}).")
    print_result(f"Then run: fedcert estimate {out} --target …")


def release(
    report: Annotated[Path, Argument(help="This site's report (.json), with --class-counts; it stays here.")],
    out: Annotated[Path, Option(help="The noisy sums to write (.json); they may go to anybody.")],
    epsilon: Annotated[float, Option(help="Add noise, for differential privacy with this epsilon.")],
    delta: Annotated[float, Option(help="Delta of the (epsilon, delta) guarantee.")] = 1e-6,
    most_per_patient: Annotated[
        int | None, Option(min=1, help="Protect patients with up to this many examples each, not single examples.")
    ] = None,
    replace: Annotated[bool, Option(help="Protect what one holds, not only whether it is there.")] = False,
    memory: Annotated[
        Path | None, Option(help="The folder in which this site remembers its private sums: what it spends adds up.")
    ] = None,
    policy: options.PolicyFile = None,
    dry_run: Annotated[bool, Option(help="Show what would be added, and write nothing.")] = False,
) -> None:
    """Write this site's counts with noise of its own: for those who cannot sum in secret."""
    from fedcert.privacy.dp.mechanism import released
    from fedcert.privacy.state_store import FolderStore

    check_writable(out, (".json",), files_among(report, policy))
    budget = from_options(
        privacy_budget, epsilon=epsilon, delta=delta, most_per_patient=most_per_patient, replace=replace, noise=ALONE
    )
    assert budget is not None  # noqa: S101
    own: Report = read_record(report, Report)
    rules = read_policy(policy)
    rules.check_release(own, budget)
    noisy = released(own, budget)
    assert noisy.private is not None  # noqa: S101
    of_cells, of_sizes = (variance**0.5 for variance in (noisy.private.variance, noisy.private.sizes_variance))
    counts = f"{sum(map(len, noisy.private.cells)):,} counts get noise of standard deviation {of_cells:.1f}"
    sizes = f"the classes' sizes, which are released twice, noise of {of_sizes:.1f}"
    print_result(f"{counts}, and {sizes}: {describe_budget(budget)}.")
    if dry_run:
        return
    if memory is None and policy is not None and rules.total_epsilon is not None:
        raise CallError(
            f"{policy} allows releases with noise up to epsilon {rules.total_epsilon:g} in all (total_epsilon): name "
            "the folder in which this site remembers what it has spent (--memory)"
        )
    if memory is None:
        print_note("nothing counts what this site's releases come to together; with --memory FOLDER that adds up")
    else:
        with closing(FolderStore(memory)) as held:
            name = f"release-{secrets.token_hex(8)}"
            print_note(str(spend(held, name, budget, rules.total_epsilon, rules.total_delta)))
    write_whole(out, noisy.dumps())
    print_result(f"Wrote {out}. Each further release of the same examples adds to epsilon.")


def moved(
    memory: Annotated[Path, Argument(help="The folder that a site gives as --memory.")],
) -> None:
    """Say that a memory was moved here, and that no other copy of it was used since."""
    from fedcert.privacy.state_store import FolderStore

    if kind_of_path(memory) != "a folder":
        raise CallError(f"there is no folder {display_path(memory)}; give the one that --memory names")
    FolderStore(memory, moved=True).close()
    print_result(f"{memory} is this site's memory from now on. Delete every other copy of it.")


app.command("release")(release)
app.command("moved")(moved)
app.command("join")(join)
app.command("sum")(add_up)
