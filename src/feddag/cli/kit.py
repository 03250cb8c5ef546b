from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddag.cli.tables import bare_table, stdout
from feddag.deployment.engines import engine
from feddag.deployment.offers import find_offer


def request(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The site, as the study calls it; or server, or analyst.", show_default=False
        ),
    ],
    *,
    out: Annotated[
        Path, typer.Option(metavar="KIT", help="A new folder, for the keys and then the kit.", show_default=False)
    ],
) -> None:
    """Makes this participant's private keys in a new folder, where they stay, and KIT/NAME.request with their public
    halves. Send the request, and nothing else, to whoever makes the kits.

    Example: feddag kit request basel --out basel
    """
    made = engine().request_kit(name, out)
    typer.echo(
        f"The private keys are in {out}: keep this folder to yourself.\n"
        f"Send {made.file} to whoever makes the kits. Its fingerprint, to compare by telephone: {made.fingerprint}\n"
        f"With the signed kit that comes back: feddag kit install {name}.kit --kit {out}"
    )


def install(
    signed: Annotated[Path, typer.Argument(metavar="SIGNED", help="The signed kit, NAME.kit.", show_default=False)],
    *,
    kit: Annotated[Path, typer.Option(metavar="KIT", help="The folder with the keys.", show_default=False)],
) -> None:
    """Checks that the kit is signed for these keys, and installs it beside them. Renewed certificates are installed in
    the same way: the keys, the study and all that the kit remembers stay.

    Example: feddag kit install basel.kit --kit basel
    """
    opened = engine().install(signed, kit)
    study = opened.study()
    typer.echo(
        f"{kit} is the kit of {opened.name!r}, with the study {study.name!r} ({study.digest[:12]}…).\n"
        f"Its authority's fingerprint, to compare by telephone with whoever signed it: {opened.trust().fingerprint}"
    )


def accept(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY",
            help="The name or the first digits of an offered study, or a file. Without it: list what is offered.",
            show_default=False,
        ),
    ] = None,
    *,
    kit: Annotated[Path, typer.Option(metavar="KIT", help="This site's kit.", show_default=False)],
) -> None:
    """Agrees to a further study on the same kit, which an analyst has offered or sent: the site takes part when the
    study is run again. Its policy holds as before. Look at the study first: feddag study check KIT/feddag/offered/FILE.

    Example: feddag kit accept --kit basel

    Example: feddag kit accept next-month --kit basel
    """
    studies = engine().open_site(kit).studies()
    if study is None:
        table = bare_table("offered study", "digest", "method", "goes on from")
        for each in studies.offered():
            table.add_row(each.name, each.digest[:12], each.method.name, (each.follows or "")[:12])
        stdout().print(table)
        return
    found = find_offer(studies, study)
    path = studies.accept(found)
    typer.echo(f"Accepted {found.name!r} ({found.digest[:12]}…): {path}. Remove this file to withdraw.")


def revoke(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The list, from whoever makes the kits.")],
    *,
    kit: Annotated[Path, typer.Option(metavar="KIT", help="This participant's kit.", show_default=False)],
) -> None:
    """Installs a list of keys that the authority has revoked. From then on nobody gets in with them; connections that
    stand last until the next start.

    Example: feddag kit revoke revoked.json --kit server
    """
    names = engine().install_revocations(file, kit)
    typer.echo(f"Revoked: keys of {', '.join(names)}. Start the kit again to end connections that stand.")


def identities(
    *,
    kit: Annotated[Path, typer.Option(metavar="KIT", help="This site's kit.", show_default=False)],
    forget: Annotated[
        str | None,
        typer.Option(
            metavar="SITE", help="Accept a new identity of a site that has announced it to you.", show_default=False
        ),
    ] = None,
) -> None:
    """Shows fingerprints, to compare by telephone: this site's own, its authority's, and those of all sites that it has
    met in any study. A site that shows another identity is refused, until you forget the old one.

    Example: feddag kit identities --kit basel
    """
    opened = engine().open_site(kit)
    trust = opened.trust()
    if forget is not None:
        trust.known.forget(forget)
    table = bare_table("who", "fingerprint")
    table.add_row(f"{opened.name} (this site)", opened.identity().fingerprint)
    table.add_row("authority", trust.fingerprint)
    for site, fingerprint in trust.known.fingerprints().items():
        table.add_row(site, fingerprint)
    stdout().print(table)
