"""Who belongs to one tenant, in which role, and who is invited?"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.acts import ReasonForm
from gpuaas.console.views.one_tenant import OneTenant
from gpuaas.kernel import clock, errors
from tenants.domain.roles import RANK
from tenants.models import Invitation, Member, Role
from tenants.selectors import member_list
from tenants.services.members import member_add, member_remove, member_role_set

ROLES = [(role, role) for role in sorted(Role.values, key=RANK.__getitem__, reverse=True)]


class RoleForm(forms.Form):
    """A role for one member."""

    role = forms.ChoiceField(label="Role", choices=ROLES)


class MemberForm(forms.Form):
    """An account that joins at once."""

    email = forms.EmailField(
        label="Mail address",
        help_text="Of somebody who has an account. Others are invited by the tenant's own people.",
    )
    role = forms.ChoiceField(label="Role", choices=ROLES, initial=Role.MEMBER)


@dataclass(frozen=True, slots=True)
class Row:
    """One member with the forms beside them."""

    member: Member
    role: forms.Form
    remove: forms.Form


class MemberBoard(OneTenant):
    """The tenant's people."""

    tab = "tenant-members"

    def show(
        self,
        *,
        form: MemberForm | None = None,
        sent: dict[tuple[UUID, str], forms.Form] | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        found = sent or {}
        rows = [
            Row(
                member,
                found.get((member.pk, "role"))
                or RoleForm(initial={"role": member.role}, auto_id=f"role-{member.pk}-%s"),
                found.get((member.pk, "remove")) or ReasonForm(auto_id=f"remove-{member.pk}-%s"),
            )
            for member in member_list(self.subject.pk)
        ]
        invited = Invitation.objects.filter(
            tenant=self.subject, accepted_at=None, revoked_at=None, expires_at__gt=clock.db_now()
        )
        return self.tenant_page(
            "console/members.html",
            status=status,
            rows=rows,
            form=form or MemberForm(),
            invited=list(invited.order_by("created_at")),
        )


class Members(MemberBoard):
    """The page itself: the tenant's people."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page."""
        return self.show()

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Let an account join."""
        form = MemberForm(request.POST)
        if not self.attempt(
            form,
            lambda given: member_add(tenant_id=self.subject.pk, actor=self.actor, **given),
        ):
            return self.show(form=form, status=400)
        messages.success(request, f"{form.cleaned_data['email']} is a member.")
        return redirect("console:tenant-members", slug)


class ActOnMember(MemberBoard):
    """Another role, or none any more."""

    def post(self, request: HttpRequest, slug: str, pk: UUID, action: str) -> HttpResponse:
        """Do it, or say beside the member why not."""
        member = Member.objects.select_related("user").filter(pk=pk, tenant=self.subject).first()
        if member is None or action not in ("role", "remove"):
            raise errors.NotFound
        form: forms.Form
        if action == "role":
            form = RoleForm(request.POST, auto_id=f"role-{member.pk}-%s")
            done = self.attempt(
                form,
                lambda given: member_role_set(
                    member_id=member.pk, role=given["role"], actor=self.actor
                ),
            )
        else:
            form = ReasonForm(request.POST, auto_id=f"remove-{member.pk}-%s")
            done = self.attempt(
                form,
                lambda given: member_remove(
                    member_id=member.pk, reason=given["reason"], actor=self.actor
                ),
            )
        if not done:
            return self.show(sent={(member.pk, action): form}, status=400)
        said = "has another role" if action == "role" else "is no member any more"
        messages.success(request, f"{member.user.email} {said}.")
        return redirect("console:tenant-members", slug)
