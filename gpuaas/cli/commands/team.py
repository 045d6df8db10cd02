"""Who is in a tenant, what it may ask for, and how it ends; and where its data lies."""

from typing import Annotated

import typer

from gpuaas.cli import describe
from gpuaas.cli.authority_kinds import (
    CATALOGUE,
    DATASET,
    DATASET_VERSION,
    DELETION,
    ENTITLEMENT,
    MEMBER,
    STORAGE,
)
from gpuaas.cli.client import segment
from gpuaas.cli.commands.tenancy import Name, Reason, Yes
from gpuaas.cli.exits import Exit
from gpuaas.cli.flags import command, group
from gpuaas.cli.kinds import INVITATION, TENANT
from gpuaas.cli.listing import All, Limit, show_list
from gpuaas.cli.problems import CliError, Json
from gpuaas.cli.session import Session, kind_path, strip_kind

Person = Annotated[str, typer.Argument(metavar="EMAIL|ID")]
Role = Annotated[str, typer.Option("--role", help="owner, admin, member, viewer or billing.")]
Tenant = Annotated[str, typer.Argument(metavar="TENANT")]
MaybeTenant = Annotated[str | None, typer.Argument(metavar="[TENANT]", help="Operators name one.")]
Sku = Annotated[str, typer.Argument(metavar="SKU")]
Places = list[str] | None
Zone = Annotated[Places, typer.Option("--zone", help="Repeat for more.")]
Rack = Annotated[Places, typer.Option("--rack", help="Repeat for more.")]
Node = Annotated[Places, typer.Option("--node", help="Repeat for more.")]
Storage = Annotated[Places, typer.Option("--storage", help="Repeat for more.")]
Preferred = Annotated[
    bool, typer.Option("--preferred", help="There if possible; without it, only there.")
]


def register(app: typer.Typer) -> None:
    """Add `member`, `entitlement`, `deletion`, `dataset` and `storage`."""
    _members(app)
    _entitlements(app)
    _deletion(app)
    _datasets(app)
    _storage(app)


def _members(app: typer.Typer) -> None:
    member = group(app, "member", "The people of your tenant and their roles.")

    @command(member, "list")
    def member_list(session: Session, limit: Limit = None, everything: All = False) -> None:
        """List the members, those who came first first."""
        show_list(session, MEMBER, limit=limit, everything=everything)

    @command(member, "describe")
    def member_describe(session: Session, person: Person) -> None:
        """Show one member."""
        session.out.item(MEMBER, _member(session, person), describe.anything)

    @command(member, "add")
    def member_add(
        session: Session, email: Annotated[str, typer.Argument(metavar="EMAIL")], role: Role
    ) -> None:
        """Let a person in, who says yes to an invitation by mail."""
        made = session.client.post(MEMBER.path, {"email": email, "role": role})
        session.out.item(INVITATION, made, describe.anything)

    @command(member, "role")
    def member_role(session: Session, person: Person, role: Role) -> None:
        """Give a member another role. Only an owner makes or changes an owner."""
        path = f"{MEMBER.path}/{segment(_member(session, person)['id'])}/role"
        session.out.item(MEMBER, session.client.put(path, {"role": role}), describe.anything)

    @command(member, "remove")
    def member_remove(session: Session, person: Person, yes: Yes = False) -> None:
        """End a membership and the tokens that stood on it. The only owner stays."""
        found = _member(session, person)
        session.confirm(f"Remove {found['email']} and their tokens?", yes=yes)
        session.client.delete(f"{MEMBER.path}/{segment(found['id'])}")
        session.out.say(f"{found['email']} is no longer in the tenant")


def _member(session: Session, person: str) -> Json:
    wanted = strip_kind(MEMBER, person).lower()
    for item in session.client.items(MEMBER.path):
        if wanted in {str(item.get("id")), str(item.get("email")).lower()}:
            return item
    raise CliError(f"no member {person!r}", Exit.NOT_FOUND)


def _entitlements(app: typer.Typer) -> None:
    entitlement = group(app, "entitlement", "Which SKUs a tenant may ask for.")

    @command(entitlement, "list")
    def entitlement_list(session: Session, tenant: MaybeTenant = None) -> None:
        """List what was granted to your tenant, or to the one named."""
        path = "" if tenant is None else f"{kind_path(TENANT, tenant)}/entitlements"
        show_list(session, ENTITLEMENT, limit=None, everything=True, path=path)

    @command(entitlement, "grant")
    def entitlement_grant(
        session: Session,
        tenant: Tenant,
        sku: Sku,
        reason: Reason,
        until: Annotated[
            str | None, typer.Option("--until", help="A moment, as ISO 8601; else for ever.")
        ] = None,
    ) -> None:
        """Let a tenant ask for a SKU (operators)."""
        body = {"sku": sku, "until": until, "reason": reason}
        answer = session.client.post(f"{kind_path(TENANT, tenant)}/entitlements", body)
        session.out.item(CATALOGUE, answer, describe.anything)

    @command(entitlement, "revoke")
    def entitlement_revoke(session: Session, tenant: Tenant, sku: Sku, reason: Reason) -> None:
        """Take a SKU away (operators); what runs goes on."""
        path = f"{kind_path(TENANT, tenant)}/entitlements/{segment(sku)}/actions/revoke"
        answer = session.client.post(path, {"reason": reason})
        session.out.item(CATALOGUE, answer, describe.anything)

    @command(entitlement, "catalogue")
    def entitlement_catalogue(
        session: Session,
        tenant: Tenant,
        catalogue: Annotated[str, typer.Argument(metavar="all|listed")],
        reason: Reason,
    ) -> None:
        """Let a tenant ask for every published SKU, or only for what was granted (operators)."""
        body = {"catalogue": catalogue, "reason": reason}
        answer = session.client.put(f"{kind_path(TENANT, tenant)}/catalogue", body)
        session.out.item(CATALOGUE, answer, describe.anything)


def _deletion(app: typer.Typer) -> None:
    deletion = group(app, "deletion", "The end of a tenant, by proof.")

    @command(deletion, "status")
    def deletion_status(session: Session, tenant: MaybeTenant = None) -> None:
        """Show what your tenant, or the one named, still holds."""
        path = "/tenant/deletion" if tenant is None else f"{kind_path(TENANT, tenant)}/deletion"
        session.out.item(DELETION, session.client.get(path), describe.anything)

    @command(deletion, "request")
    def deletion_request(session: Session, reason: Reason, yes: Yes = False) -> None:
        """Delete your own tenant (owners): keys stop working, all that is held is released."""
        session.confirm("Delete your tenant? Nothing brings it back.", yes=yes)
        answer = session.client.post("/tenant/deletion", {"reason": reason})
        session.out.item(DELETION, answer, describe.anything)


def _datasets(app: typer.Typer) -> None:
    dataset = group(app, "dataset", "Where your data lies; requests that name it stay near it.")

    @command(dataset, "list")
    def dataset_list(session: Session) -> None:
        """List the data sets in the version that holds."""
        show_list(session, DATASET, limit=None, everything=True)

    @command(dataset, "describe")
    def dataset_describe(session: Session, name: Name) -> None:
        """Show one data set."""
        session.out.item(DATASET, session.client.get(kind_path(DATASET, name)), describe.anything)

    @command(dataset, "versions")
    def dataset_versions(
        session: Session, name: Name, limit: Limit = None, everything: All = False
    ) -> None:
        """List how a data set came to lie where it does, the latest first."""
        path = f"{kind_path(DATASET, name)}/versions"
        show_list(session, DATASET_VERSION, limit=limit, everything=everything, path=path)

    @command(dataset, "declare")
    def dataset_declare(
        session: Session,
        name: Name,
        zone: Zone = None,
        rack: Rack = None,
        node: Node = None,
        storage: Storage = None,
        preferred: Preferred = False,
    ) -> None:
        """Say where data lies, as the next version of its name."""
        body = {
            "name": name,
            "zones": zone or [],
            "racks": rack or [],
            "nodes": node or [],
            "storage": storage or [],
            "required": not preferred,
        }
        session.out.item(DATASET, session.client.post(DATASET.path, body), describe.anything)

    @command(dataset, "retire")
    def dataset_retire(session: Session, name: Name, yes: Yes = False) -> None:
        """No request may name it any more; its versions stay in the record."""
        session.confirm(f"Retire data set {name}?", yes=yes)
        session.client.delete(kind_path(DATASET, name))
        session.out.say(f"data set {name} is retired")


def _storage(app: typer.Typer) -> None:
    storage = group(app, "storage", "Storage that is offered, in which data may lie.")

    @command(storage, "list")
    def storage_list(session: Session) -> None:
        """List what is offered, in the version that holds."""
        show_list(session, STORAGE, limit=None, everything=True)

    @command(storage, "declare")
    def storage_declare(
        session: Session,
        name: Name,
        kind: Annotated[str, typer.Option("--kind", help="Such as nvme or lustre.")],
        reason: Reason,
        zone: Zone = None,
    ) -> None:
        """Offer storage, as the next version of its name (operators)."""
        body = {"name": name, "kind": kind, "zones": zone or [], "reason": reason}
        session.out.item(STORAGE, session.client.post(STORAGE.path, body), describe.anything)

    @command(storage, "retire")
    def storage_retire(session: Session, name: Name, reason: Reason) -> None:
        """No data set may name it any more (operators)."""
        path = f"{kind_path(STORAGE, name)}/actions/retire"
        session.client.post(path, {"reason": reason})
        session.out.say(f"storage {name} is retired")
