"""What does the framework alone cost?  One row inserted through DRF, and nothing else.

Served by the same server as the product (``benchmarks.drf_floor:application``): a model
serializer with three fields, a generic view, no authentication, no policy.
"""

from __future__ import annotations

import gc
import os
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from benchmarks.drf_floor_table import TABLE
from gpuaas.config import DatabaseAddress


def _configure() -> None:
    address = DatabaseAddress.parse(os.environ["DATABASE_URL"])
    settings.configure(
        SECRET_KEY=os.environ["GPUAAS_SECRET_KEY"],
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
        INSTALLED_APPS=["rest_framework"],
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "HOST": address.host,
                "PORT": address.port,
                "USER": address.user,
                "PASSWORD": address.password,
                "NAME": address.name,
                "OPTIONS": {"pool": {"min_size": 0, "max_size": 16, "timeout": 10}},
            }
        },
        REST_FRAMEWORK={
            "DEFAULT_AUTHENTICATION_CLASSES": [],
            "DEFAULT_PERMISSION_CLASSES": [],
            "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
            "UNAUTHENTICATED_USER": None,
        },
    )


_configure()
application = get_wsgi_application()

from django.db import models  # noqa: E402  # the settings come first
from django.db.models.functions import Now  # noqa: E402
from rest_framework import generics, serializers  # noqa: E402


class Thing(models.Model):
    """A row like any other."""

    name = models.CharField(max_length=120)
    slots = models.IntegerField()
    spec = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "bench"
        db_table = TABLE
        managed = False

    def __str__(self) -> str:
        return self.name


class ThingSerializer(serializers.ModelSerializer[Thing]):
    """The row as JSON."""

    class Meta:
        model = Thing
        fields = ("id", "name", "slots", "spec", "created_at")
        read_only_fields = ("created_at",)


class Things(generics.CreateAPIView[Thing]):
    """POST makes one."""

    queryset = Thing._default_manager.all()
    serializer_class = ThingSerializer


def ready(request: HttpRequest) -> HttpResponse:
    """The server is up."""
    return HttpResponse("ready")


urlpatterns: list[Any] = [path("things", Things.as_view()), path("ready", ready)]

# As the product's own server does: what was loaded is not looked at by the garbage collector.
gc.collect()
gc.freeze()
