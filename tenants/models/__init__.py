"""What is remembered about who, what is sold, and how much is theirs?"""

from tenants.models.access import (
    ApiToken,
    BreakGlass,
    Invitation,
    Member,
    OperatorRole,
    Role,
    ServiceAccount,
    SshKey,
    User,
)
from tenants.models.authority import (
    BurstRule,
    DataSet,
    EnvelopeVersion,
    OnExcess,
    ProjectQuota,
    QuotaIncrease,
    TierAssignment,
    TierVersion,
)
from tenants.models.catalogue import PARTS, ResourceClass, Shape, Sku, SkuPrice, SlaTier
from tenants.models.cohort import Cohort, CohortCounter
from tenants.models.storage import Storage
from tenants.models.tenancy import (
    Entitlement,
    Envelope,
    Project,
    QuotaCounter,
    Tenant,
    TenantCaps,
)

__all__ = [
    "PARTS",
    "ApiToken",
    "BreakGlass",
    "BurstRule",
    "Cohort",
    "CohortCounter",
    "DataSet",
    "Entitlement",
    "Envelope",
    "EnvelopeVersion",
    "Invitation",
    "Member",
    "OnExcess",
    "OperatorRole",
    "Project",
    "ProjectQuota",
    "QuotaCounter",
    "QuotaIncrease",
    "ResourceClass",
    "Role",
    "ServiceAccount",
    "Shape",
    "Sku",
    "SkuPrice",
    "SlaTier",
    "SshKey",
    "Storage",
    "Tenant",
    "TenantCaps",
    "TierAssignment",
    "TierVersion",
    "User",
]
