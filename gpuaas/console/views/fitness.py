"""What does an operator decide about a host's fitness?"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.views.nodes import OneNode
from gpuaas.kernel import errors
from gpuaas.ui.forms import text_in
from placement.selectors import node_named
from placement.services import evidence as service
from placement.services.burn_in import burn_in_order
from placement.services.burn_in_stop import burn_in_stop
from placement.services.health import health_lift


class ActOnFitness(OneNode):
    """Promote or demote a host, burn it in, or lift what is known against a GPU."""

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Do it with the reason given, and go back to the node."""
        node = node_named(name)
        reason = text_in(request)
        shape = text_in(request, "capability", 20)
        action = request.POST.get("do", "")
        if action == "promote":
            service.node_promote(node_id=node.pk, capability=shape, reason=reason, actor=self.actor)
        elif action == "demote":
            service.node_demote(node_id=node.pk, capability=shape, reason=reason, actor=self.actor)
        elif action == "burn-in-run":
            hours = request.POST.get("hours", "")
            digits = hours.isascii() and hours.isdecimal() and len(hours) <= 2
            if not digits or not 1 <= int(hours) <= 48:
                raise errors.InvalidRequest(
                    errors=(errors.FieldError("/hours", "out_of_range", "whole hours, 1 to 48"),)
                )
            burn_in_order(
                node_id=node.pk, duration_s=int(hours) * 3600, reason=reason, actor=self.actor
            )
            messages.success(request, f"{node.name}: the burn-in is ordered; see its tasks.")
            return redirect("console:node", node.name)
        elif action == "burn-in-stop":
            burn_in_stop(node_id=node.pk, reason=reason, actor=self.actor)
            words = f"{node.name}: the burn-in is stopped; the host opens when its load is over."
            messages.success(request, words)
            return redirect("console:node", node.name)
        elif action == "burn-in":
            verdict = text_in(request, "verdict", 8)
            service.evidence_give(
                node_id=node.pk, check="burn_in", verdict=verdict, reason=reason, actor=self.actor
            )
        elif action == "lift":
            gpu = text_in(request, "gpu", 120)
            health_lift(node_id=node.pk, gpu_uuid=gpu, reason=reason, actor=self.actor)
        else:
            raise errors.NotFound
        messages.success(request, f"{node.name}: {action} done.")
        return redirect("console:node", node.name)
