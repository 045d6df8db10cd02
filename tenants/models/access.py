"""Who may act, and with what key?"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now

from gpuaas.kernel import ids
from gpuaas.kernel.models import Base
from gpuaas.kernel.models.base import Grant
from tenants.domain import roles
from tenants.models.tenancy import Project, Tenant


class OperatorRole(models.TextChoices):
    """What an operator of the platform may do; ``tenants.domain.roles`` says it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMINISTRATOR = "administrator"


class UserManager(BaseUserManager["User"]):
    """Makes people, by e-mail address."""

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """A person who may sign in."""
        user = self.model(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        """An operator with every right."""
        fields = {"operator_role": OperatorRole.ADMINISTRATOR, **fields}
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> User:
        """Sign-in ignores the case of the address."""
        return self.get(email__iexact=username)


class User(AbstractBaseUser, PermissionsMixin):
    """A person. ``is_staff`` makes an operator, who may do what ``operator_role`` carries."""

    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    email = models.EmailField(max_length=254)
    full_name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField("operator", default=False)
    operator_role = models.CharField(
        max_length=16,
        choices=OperatorRole.choices,
        blank=True,
        default="",
        db_default="",
        help_text="Empty: nothing, even for an operator.",
    )
    theme = models.CharField(
        max_length=8, default="auto", choices=[(x, x) for x in ("auto", "light", "dark")]
    )
    date_joined = models.DateTimeField(db_default=Now())

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                Lower("email"),
                name="user_email_once",
                violation_error_message="An account with this address exists already.",
            )
        ]

    def __str__(self) -> str:
        return self.email

    def may_operate(self, action: str) -> bool:
        """Whether this person is an operator whose role carries the action."""
        role = self.operator_role if self.is_active and self.is_staff else ""
        return roles.may(action, role="", operator=role, scopes=frozenset())


class Role(models.TextChoices):
    """What a member may do in a tenant."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"
    BILLING = "billing"


class Member(Base):
    """A person's role in a tenant."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "user"], name="one_role_per_member")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role}"


class ServiceAccount(Base):
    """An identity for a program of the tenant's: a role, tokens, no password."""

    tenant_grant: ClassVar[Grant] = "write"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="service_accounts")
    name = models.CharField(max_length=120)
    role = models.CharField(max_length=10, choices=Role.choices)
    disabled_at = models.DateTimeField(null=True)
    created_by = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="one_service_account_name")
        ]

    def __str__(self) -> str:
        return self.name


class Invitation(Base):
    """A single-use offer of a role to a mail address; only its hash is kept."""

    tenant_grant: ClassVar[Grant] = "write"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(max_length=254)
    role = models.CharField(max_length=10, choices=Role.choices)
    digest = models.BinaryField(max_length=32, unique=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    invited_by = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                "tenant",
                Lower("email"),
                name="one_open_invitation",
                condition=Q(accepted_at__isnull=True, revoked_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.email} as {self.role}"


class BreakGlass(Base):
    """An operator's recorded, time-limited access to one tenant's own view."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    operator = models.ForeignKey(User, on_delete=models.PROTECT)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    reason = models.TextField()
    until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "break-glass window"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(until__gt=F("created_at")), name="break_glass_has_an_end"
            )
        ]

    def __str__(self) -> str:
        return f"{self.operator_id} in {self.tenant_id} until {self.until}"


class ApiToken(Base):
    """A hashed, scoped, expiring key. An operator's token has no tenant."""

    tenant_grant: ClassVar[Grant] = "write"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, null=True, on_delete=models.CASCADE, related_name="tokens")
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="tokens")
    service_account = models.ForeignKey(
        ServiceAccount, null=True, on_delete=models.CASCADE, related_name="tokens"
    )
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE)
    name = models.CharField(max_length=120)
    key = models.CharField(max_length=12, unique=True)
    digest = models.BinaryField(max_length=32)
    pepper = models.CharField(max_length=16)
    scopes = ArrayField(models.CharField(max_length=60), default=list, blank=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["tenant", "user"], name="token_live", condition=Q(revoked_at__isnull=True)
            )
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(user__isnull=True) ^ Q(service_account__isnull=True),
                name="token_has_one_owner",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.key}…)"


class SshKey(Base):
    """A public key that is put into what the tenant leases."""

    tenant_grant: ClassVar[Grant] = "write"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="ssh_keys")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="ssh_keys")
    name = models.CharField(max_length=120)
    public_key = models.TextField(max_length=8192)
    fingerprint = models.CharField(max_length=64)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "fingerprint"],
                name="ssh_key_once_per_tenant",
                violation_error_message="This key has been added already.",
            ),
            models.UniqueConstraint(
                fields=["tenant", "name"],
                name="one_ssh_key_of_a_name",
                violation_error_message="The tenant has another key of this name.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.fingerprint}"
