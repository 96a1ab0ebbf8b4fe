"""fedcert keys: who a site is, and whom it trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from fedcert._files.documents import kind_of, read_documents
from fedcert._files.paths import check_readable, kind_of_path
from fedcert._schema.field_types import Text
from fedcert.cli.console import print_note, print_result
from fedcert.cli.inputs import option
from fedcert.errors import CallError
from fedcert.report import check_writable, read_record, write_whole

app = Typer(help="Keys: who a site is, and whom it trusts.", no_args_is_help=True, rich_markup_mode=None)


def new(
    name: Annotated[str, Argument(help="The site's name, as in rosters and reports.")],
    out: Annotated[Path, Option(help="The file of the secret keys to write (.json); it stays at the site.")],
    card: Annotated[Path | None, Option(help="The card to write (.json); it goes to the others.")] = None,
) -> None:
    """Make a site's keys: a secret file that stays, and a card for the others."""
    from fedcert.privacy.keys.identity import Identity, write_identity

    card = card if card is not None else out.with_suffix(".card.json")
    check_writable(out, (".json",))
    check_writable(card, (".json",), [out])
    for path in (out, card):
        if kind_of_path(path) is not None:
            raise CallError(f"{path} exists already, and neither keys nor cards are overwritten; name another file")
    if card.resolve() == out.resolve():
        raise CallError(f"--out and --card are both {out}: the card goes to others, the keys do not; name another file")
    identity = Identity.new(option("NAME", Text(), name))
    write_identity(identity, out)
    write_whole(card, identity.card.dumps())
    print_result(f"Wrote {out}: secret; whoever has it can act as {name}. It never leaves the site.")
    print_result(f"Wrote {card}: give it to the others. Its fingerprint, to read out by telephone:")
    print_result(identity.card.fingerprint)


def trust(
    keyring: Annotated[Path, Argument(help="The keyring (.json); made if it is not there.")],
    cards: Annotated[list[Path] | None, Argument(help="Cards of those to trust (.json).")] = None,
    remove: Annotated[list[str] | None, Option(help="A name to take out.")] = None,
) -> None:
    """Take cards into a keyring, or names out of it."""
    from fedcert.privacy.keys.identity import Card
    from fedcert.privacy.keys.keyring import Keyring, read_keyring

    if not cards and not remove:
        raise CallError("give cards to take in, or --remove NAME")
    check_writable(keyring, (".json",), cards or ())
    ring = read_keyring(keyring) if kind_of_path(keyring) is not None else Keyring(members={})
    taken = [read_record(path, Card) for path in cards or ()]
    updated = ring.without(remove or ()).with_cards(taken)
    write_whole(keyring, updated.dumps())
    for card in taken:
        print_result(f"Trusts {card.name}, {card.fingerprint}")
    if taken:
        print_note(
            "compare each fingerprint with its owner by telephone: a card that was swapped on its way is believed"
        )
    print_result(f"Wrote {keyring}: {len(updated.members)} members.")


def show(file: Annotated[Path, Argument(help="A keyring, a card or a secret file (.json).")]) -> None:
    """Show names and fingerprints; never a secret."""
    from fedcert.privacy.keys.identity import Card, Identity, fingerprint
    from fedcert.privacy.keys.keyring import Keyring

    check_readable(file, (".json",))
    ((place, document),) = read_documents(file)
    kind = kind_of(document, place, (Card, Identity, Keyring))
    document_value: Any = kind.from_json(document, place)
    if isinstance(document_value, Keyring):
        for name, member in document_value.members.items():
            print_result(f"{name}, {fingerprint(name, member.signing, member.agreement)}")
        return
    card = document_value if isinstance(document_value, Card) else document_value.card
    print_result(f"{card.name}, {card.fingerprint}")


app.command("new")(new)
app.command("trust")(trust)
app.command("show")(show)
