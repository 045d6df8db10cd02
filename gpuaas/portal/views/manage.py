"""Who is in the tenant, in which projects do they work, and which keys do they hold?"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.kernel import errors
from gpuaas.kernel.scope import platform_scope
from gpuaas.portal.forms import MemberForm, NamedForm, SshKeyForm, TokenForm
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.forms import refuse, text_in
from gpuaas.ui.quota import bars_of
from tenants.domain.roles import ACTIONS, RANK
from tenants.models import ApiToken, Member, SshKey
from tenants.selectors import counter_list, member_list, ssh_key_list, token_list
from tenants.services.access import ssh_key_add, ssh_key_delete, token_create, token_revoke
from tenants.services.invitations import invitation_create
from tenants.services.members import member_remove, member_role_set
from tenants.services.service_accounts import account_list
from tenants.services.tenancy import project_create

SHOWN = 50


class Team(TenantPage):
    """Members, projects and envelopes of the tenant."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page with empty forms."""
        return self.show(MemberForm(), NamedForm())

    def show(
        self,
        member: MemberForm,
        project: NamedForm,
        status: int = 200,
        refusal: errors.ProductError | None = None,
    ) -> HttpResponse:
        """The page with these forms, and why a change was refused."""
        with platform_scope():
            members = list(member_list(self.tenant.pk))
        sees = self.may("service_accounts:read")
        return self.page(
            "portal/team.html",
            status=status,
            members=members,
            may_give=[role for role in RANK if RANK[role] <= RANK.get(self.actor.role, -1)],
            refusal=refusal,
            sees_programs=sees,
            programs=list(account_list(self.tenant.pk)[:SHOWN]) if sees else [],
            member_form=member,
            project_form=project,
            all_projects=self.projects,
            bars=bars_of(counter_list(self.tenant.pk)),
            may_members=self.may("members:write"),
            may_projects=self.may("projects:write"),
        )


class NewProject(Team):
    """Make a project."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make it, or show what is wrong with its name."""
        form = NamedForm(request.POST)
        if form.is_valid():
            try:
                made = project_create(
                    tenant_id=self.tenant.pk, name=form.cleaned_data["name"], actor=self.actor
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, f"Project {made.name} is there.")
                return redirect(self.url("team"))
        return self.show(MemberForm(), form, 400)


class SetMember(Team):
    """Invite a person to a role: alike for those with an account and for those without."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Nobody gives a role above their own."""
        form = MemberForm(request.POST)
        if form.is_valid():
            role = form.cleaned_data["role"]
            try:
                if RANK[role] > RANK.get(self.actor.role, -1):
                    raise errors.PermissionDenied(f"Only an owner can make an {role}.")
                invitation_create(
                    tenant_id=self.tenant.pk,
                    email=form.cleaned_data["email"],
                    role=role,
                    link=lambda secret: request.build_absolute_uri(
                        reverse("portal:invitation", args=[secret])
                    ),
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, f"{form.cleaned_data['email']} is invited.")
                return redirect(self.url("team"))
        return self.show(form, NamedForm(), 400)


class OneMember(Team):
    """A change of one membership."""

    def answer(self, change: Callable[[], object], told: str) -> HttpResponse:
        """Make the change, or show the team with why not."""
        try:
            change()
        except errors.ProductError as refused:
            return self.show(MemberForm(), NamedForm(), refused.status, refused)
        messages.success(self.request, told)
        # Whoever took themself out is led to where they may be.
        stays = Member.objects.filter(user_id=self.user.pk).exists()
        return redirect(self.url("team") if stays else "portal:front-door")


class SetRole(OneMember):
    """Another role for a member."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Nobody gives a role above their own."""
        role = text_in(request, "role", 20)

        def change() -> None:
            if RANK.get(role, 0) > RANK.get(self.actor.role, -1):
                raise errors.PermissionDenied(f"Only an owner can make an {role}.")
            member_role_set(member_id=pk, role=role, actor=self.actor)

        return self.answer(change, f"The role is {role} now.")


class RemoveMember(OneMember):
    """The end of a membership."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Their tokens end with it."""
        return self.answer(
            lambda: member_remove(member_id=pk, actor=self.actor),
            "They are no longer in the tenant; their API tokens stopped working.",
        )


class Tokens(TenantPage):
    """One's own API tokens in this tenant."""

    def form(self, *data: object) -> TokenForm:
        """The form with the scopes that this person's role carries."""
        form = TokenForm(*data)  # type: ignore[arg-type]  # POST data or nothing
        mine = sorted(action for action, roles in ACTIONS.items() if self.actor.role in roles)
        form.fields["scopes"].choices = [(a, a) for a in mine]  # type: ignore[attr-defined]  # the stubs lack it
        return form

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list."""
        return self.show(self.form())

    def show(self, form: TokenForm, made: str = "", status: int = 200) -> HttpResponse:
        """The list with this form, and a new token's text, this once."""
        response = self.page(
            "portal/tokens.html",
            status=status,
            form=form,
            made=made,
            server=self.request.build_absolute_uri("/").rstrip("/"),
            tokens=list(token_list(self.tenant.pk, self.user.pk)),
        )
        response["Cache-Control"] = "no-store"
        return response

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make one and show its text, which is not kept."""
        form = self.form(request.POST)
        if form.is_valid():
            given = form.cleaned_data
            try:
                _, text = token_create(
                    user=self.user,
                    tenant_id=self.tenant.pk,
                    name=given["name"],
                    scopes=given["scopes"],
                    expires_in_days=given["expires_in_days"],
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                return self.show(self.form(), text)
        return self.show(form, status=400)


class RevokeToken(TenantPage):
    """End a token."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Only one's own, unless one runs the tenant."""
        own = ApiToken.objects.filter(pk=pk)
        if self.actor.role not in {"owner", "admin"}:
            own = own.filter(user_id=self.user.pk)
        if not own.exists():
            raise errors.NotFound
        token_revoke(token_id=pk, actor=self.actor)
        messages.success(request, "The token is revoked; it stopped working at once.")
        return redirect(self.url("tokens"))


class SshKeys(TenantPage):
    """The public keys that are put into what the tenant leases."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list."""
        return self.show(SshKeyForm())

    def show(self, form: SshKeyForm, status: int = 200) -> HttpResponse:
        """The list with this form."""
        return self.page(
            "portal/ssh_keys.html",
            status=status,
            form=form,
            keys=list(ssh_key_list(self.tenant.pk)),
            may_write=self.may("keys:write"),
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Keep a key."""
        form = SshKeyForm(request.POST)
        if form.is_valid():
            given = form.cleaned_data
            try:
                key = ssh_key_add(
                    tenant_id=self.tenant.pk,
                    user_id=self.user.pk,
                    name=given["name"],
                    public_key=given["public_key"],
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, f"Key {key.name} is kept.")
                return redirect(self.url("ssh-keys"))
        return self.show(form, 400)


class DeleteSshKey(TenantPage):
    """Forget a key."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Only one's own, unless one runs the tenant."""
        own = SshKey.objects.filter(pk=pk)
        if self.actor.role not in {"owner", "admin"}:
            own = own.filter(user_id=self.user.pk)
        if not own.exists():
            raise errors.NotFound
        ssh_key_delete(key_id=pk, actor=self.actor)
        messages.success(request, "The key is forgotten. What runs keeps it until it is released.")
        return redirect(self.url("ssh-keys"))
