"""What stands around every page: who is here, where they are, where they can go."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuaas.kernel.actor import Actor
from tenants.models import BreakGlass, Project, Tenant, User


@dataclass(frozen=True, slots=True)
class Link:
    """One place in the navigation; ``count`` is work that waits there."""

    title: str
    url: str
    icon: str
    count: int = 0
    current: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A group of places under one heading (an empty heading for the first group)."""

    title: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Crumb:
    """One step of the way here; the last has no address."""

    title: str
    url: str = ""


@dataclass(frozen=True)
class Frame:
    """Everything the frame template needs; pages never look it up themselves."""

    place: str
    home: str
    search: str
    user: User
    actor: Actor
    sections: tuple[Section, ...]
    environment: str = ""
    tenant: Tenant | None = None
    tenants: tuple[Tenant, ...] = ()
    projects: tuple[Project, ...] = ()
    crumbs: tuple[Crumb, ...] = field(default=())
    window: BreakGlass | None = None
    """The window through which an operator looks at this tenant, which the page says."""

    @property
    def themes(self) -> tuple[tuple[str, str], ...]:
        """What the reader may choose for colours."""
        return (("auto", "As the system"), ("light", "Light"), ("dark", "Dark"))


def with_current(
    sections: tuple[Section, ...], path: str, crumbs: tuple[Crumb, ...] = ()
) -> tuple[Section, ...]:
    """The same sections with the link marked that leads closest to ``path``.

    The first link is the way home, which all addresses begin with: below it, a page that no
    other link leads to belongs where its crumbs come from.
    """
    urls = [link.url for section in sections for link in section.links]
    best = max((url for url in urls if path.startswith(url)), key=len, default="")
    if best == urls[0] and path != best:
        best = next((crumb.url for crumb in reversed(crumbs) if crumb.url in urls), "")
    return tuple(
        Section(
            section.title,
            tuple(
                Link(link.title, link.url, link.icon, link.count, link.url == best)
                for link in section.links
            ),
        )
        for section in sections
    )
