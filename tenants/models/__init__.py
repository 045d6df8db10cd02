"""What is remembered about who, what is sold, and how much is theirs?"""

from tenants.models.access import ApiToken, Member, Role, SshKey, User
from tenants.models.catalogue import ResourceClass, Shape, Sku, SkuPrice, SlaTier
from tenants.models.tenancy import Envelope, Project, QuotaCounter, Tenant

__all__ = [
    "ApiToken",
    "Envelope",
    "Member",
    "Project",
    "QuotaCounter",
    "ResourceClass",
    "Role",
    "Shape",
    "Sku",
    "SkuPrice",
    "SlaTier",
    "SshKey",
    "Tenant",
    "User",
]
