"""Where is the node, tenant, allocation, tier, rule or code that somebody has at hand?"""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from admission.models import AdmissionRequest, PolicyRule
from gpuaas.console.pages import ConsolePage
from gpuaas.ui.search import MOST, Hit, reason_hits, straight_to, uuid_of, words_of
from placement.models import Allocation, GpuDevice, Node, NodeTask
from tenants.models import Cohort, SlaTier, Tenant


class Search(ConsolePage):
    """Names, ids, GPU UUIDs and reason codes."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The hits; the only one, or the only exact one, is gone to at once."""
        words = words_of(request)
        hits = self.hits(words) if words else []
        return straight_to(words, hits) or self.page("console/search.html", find=words, hits=hits)

    def hits(self, words: str) -> list[Hit]:
        """What the words lead to, best kinds first."""
        pk = uuid_of(words)
        by_id = Q(pk=pk) if pk else Q(pk__in=[])
        nodes = Node.objects.filter(Q(name__icontains=words) | by_id).order_by("name")[:MOST]
        gpus = GpuDevice.objects.select_related("node").filter(uuid__icontains=words)[:MOST]
        tenants = Tenant.objects.filter(
            Q(name__icontains=words) | Q(slug__icontains=words) | by_id
        ).order_by("name")[:MOST]
        rows = Allocation.objects.select_related("tenant").filter(Q(name__icontains=words) | by_id)
        found = [Hit("Node", n.name, _url("node", n.name), n.state) for n in nodes]
        found += [Hit("GPU", f"{g.uuid} in {g.node.name}", _url("node", g.node.name)) for g in gpus]
        found += [Hit("Tenant", t.name, _url("tenant", t.slug), t.state) for t in tenants]
        found += [
            Hit("Allocation", f"{a.name} of {a.tenant.name}", _url("allocation", a.pk), a.state)
            for a in rows.order_by("-created_at")[:MOST]
        ]
        found += [
            Hit("Request", str(r.pk), _url("request", r.pk), r.state)
            for r in AdmissionRequest.objects.filter(by_id)
        ]
        found += [
            Hit("Node task", f"{t.kind}", _url("task", t.pk), t.state)
            for t in NodeTask.objects.filter(by_id)
        ]
        called = Q(name__icontains=words) | Q(title__icontains=words)
        found += [
            Hit("Tier", t.title, _url("tier", t.name))
            for t in SlaTier.objects.filter(called | by_id).order_by("name")[:MOST]
        ]
        found += [
            Hit("Cohort", c.title or c.name, _url("cohort", c.name))
            for c in Cohort.objects.filter(called | by_id).order_by("name")[:MOST]
        ]
        rules = PolicyRule.objects.filter(Q(name__icontains=words) | by_id)
        found += [
            Hit("Policy", f"{r.name} v{r.rule_version}", _url("policy", r.pk), r.state)
            for r in rules.order_by("name", "-rule_version")[:MOST]
        ]
        found += reason_hits(words)
        return found


def _url(name: str, key: object) -> str:
    return reverse(f"console:{name}", args=[key])
