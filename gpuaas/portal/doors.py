"""Which pages open to somebody who has not signed in all the way, and why?

Every other page of the portal and the console is for members or operators and names the
action that it needs. A page that does neither fails a test.
"""

from __future__ import annotations

DOORS: dict[str, str] = {
    "portal:front-door": "leads on, or to the sign-in",
    "portal:sign-in": "the sign-in itself",
    "portal:sign-out": "ends a session, whoever's",
    "portal:sign-up": "makes an account",
    "portal:second-factor": "whoever gave their password, for the second step",
    "portal:second-factor-setup": "whoever gave their password, for the second step",
    "portal:security": "one's own account",
    "portal:recovery-codes": "one's own account, with a fresh code",
    "portal:second-factor-remove": "one's own account, with a fresh code",
    "portal:invitation": "the link's secret is the permission",
    "portal:theme": "one's own colours",
    "portal:password-change": "one's own account",
    "portal:password-reset": "a link goes to the address",
    "portal:password-reset-sent": "says the same to everybody",
    "portal:password-reset-set": "the link's secret is the permission",
    "portal:reasons": "explanations, the same for all",
    "portal:reason": "explanations, the same for all",
    "openid_connect_login": "leads to the provider",
    "openid_connect_callback": "comes back from the provider",
}
"""Pages by name, with what stands instead of an action."""

EVERY_MEMBER: dict[str, str] = {
    "portal:home": "every role sees its tenant's home; its parts ask for their own actions",
}
"""Pages of a tenant that any of its members may read."""
