"""Who executes?  Celery does; PostgreSQL remembers, so a lost message loses nothing."""

from __future__ import annotations

import os

from celery import Celery

from gpuaas.config import Config

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings")

app = Celery("gpuaas", broker=Config.from_env().redis_url)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_serializer="json",
    accept_content=["json"],
    enable_utc=True,
    timezone="UTC",
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 900},
    task_publish_retry=False,
    worker_hijack_root_logger=False,
    task_default_queue="default",
)
app.autodiscover_tasks(
    ["gpuaas.kernel", "tenants", "admission", "placement", "runtime_enforcement"]
)
