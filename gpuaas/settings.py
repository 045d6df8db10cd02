"""How is Django set up?  Fed by Config; business thresholds are rows, not settings."""

from __future__ import annotations

from pathlib import Path

import structlog
from csp.constants import NONE, SELF
from django.urls import reverse_lazy

from gpuaas.celery import app as celery_app
from gpuaas.config import Config
from gpuaas.identity import openid
from gpuaas.version import VERSION

# Every process sends its hints through this app, not only the workers.
celery_app.set_default()

CONFIG = Config.from_env()
BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = CONFIG.secret_key
DEBUG = CONFIG.debug
ALLOWED_HOSTS = list(CONFIG.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(CONFIG.csrf_trusted_origins)

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "django_fsm",
    "axes",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "gpuaas.kernel",
    "tenants",
    "admission",
    "placement",
    "runtime_enforcement",
    "gpuaas.ui",
    "gpuaas.api",
    "gpuaas.portal",
    "gpuaas.console",
    *(["gpuaas.demo"] if CONFIG.demo else []),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "gpuaas.api.middleware.RequestContextMiddleware",
    "gpuaas.api.share.HostsShareMiddleware",
    # A program's call needs nothing of what follows.
    "gpuaas.api.lane.ProgramLaneMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # Whoever has not given their second factor yet is nobody to all that follows.
    "gpuaas.identity.gate.SecondFactorMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "gpuaas.urls"
WSGI_APPLICATION = "gpuaas.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

_db = CONFIG.database
DATABASES = {
    "default": {
        # Replaces a connection that PostgreSQL's restart left dead before it is handed out.
        "ENGINE": "gpuaas.kernel.postgres",
        "HOST": _db.host,
        "PORT": _db.port,
        "USER": _db.user,
        "PASSWORD": _db.password,
        "NAME": _db.name,
        "OPTIONS": {
            **dict(_db.options),
            # A parked connection gives its database connection back, so few are enough.
            "pool": {"min_size": 0, "max_size": 16, "timeout": 10, "max_idle": 60},
            # The claim path's statements are prepared (gpuaas.kernel.prepared); planning them
            # once is enough. Django's own statements carry their values and are planned as ever.
            "prepare_threshold": 0,
            "options": (
                "-c plan_cache_mode=force_generic_plan "
                "-c lock_timeout=5s -c statement_timeout=30s "
                "-c idle_in_transaction_session_timeout=30s -c timezone=UTC"
            ),
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "tenants.User"
# Addresses are unique whatever their case, by a constraint that this check does not know.
SILENCED_SYSTEM_CHECKS = ["auth.W004"]
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
LOGIN_URL = reverse_lazy("portal:sign-in")
LOGIN_REDIRECT_URL = reverse_lazy("portal:front-door")
LOGOUT_REDIRECT_URL = reverse_lazy("portal:sign-in")
# What authenticate() is given, in forms and in the api; else no failure would be counted.
AXES_USERNAME_FORM_FIELD = "username"
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = 0.25
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "gpuaas.identity.lockout.counted_caller"
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False
AXES_DISABLE_ACCESS_LOG = True

# allauth speaks OpenID Connect and keeps the second factors; the pages are our own.
ACCOUNT_ADAPTER = "gpuaas.identity.adapters.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_ADAPTER = "gpuaas.identity.adapters.OpenIdAdapter"
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_PROVIDERS = openid.providers(CONFIG.open_id)
MFA_ADAPTER = "tenants.sealed_factors.SealedFactors"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "GPU control plane"
# A code is good for half a minute before and after its own, so that clocks may differ.
MFA_TOTP_TOLERANCE = 1
# Operators need a second factor. The demo lets them in without one, and says so on the page.
OPERATOR_FACTOR_GRACE = CONFIG.demo

SESSION_COOKIE_NAME = "gpuaas_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CONFIG.public_url.startswith("https://")
CSRF_COOKIE_NAME = "gpuaas_csrf"
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
FILE_UPLOAD_HANDLERS = ["gpuaas.uploads.NoFiles"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    },
    # The admin theme and the API reference need inline code; theirs is set per path.
    "EXCLUDE_URL_PREFIXES": ("/admin/", "/api/docs/"),
}

LANGUAGE_CODE = "en"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = CONFIG.data_dir / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True

EMAIL_BACKEND = CONFIG.mail.backend
EMAIL_HOST, EMAIL_PORT = CONFIG.mail.host, CONFIG.mail.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = CONFIG.mail.user, CONFIG.mail.password
EMAIL_USE_SSL, EMAIL_USE_TLS = CONFIG.mail.tls, CONFIG.mail.starttls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = CONFIG.mail.sender

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "gpuaas.api.authentication.TokenAuthentication",
        "gpuaas.api.authentication.PortalSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["gpuaas.api.permissions.Declared"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["gpuaas.api.parsing.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "gpuaas.api.schema.Schema",
    "EXCEPTION_HANDLER": "gpuaas.api.problems.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

SPECTACULAR_SETTINGS = {
    "TITLE": "GPU platform control plane",
    "DESCRIPTION": "Lease, place, provision and release GPU capacity by decision and by proof.",
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "SORT_OPERATIONS": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "gpuaas.api.schema.finish",
    ],
    "ENUM_NAME_OVERRIDES": {
        "TenantState": "tenants.states.TenantState",
        "SkuState": "tenants.states.SkuState",
        "AllocationState": "placement.states.AllocationState",
        "ClaimState": "placement.states.ClaimState",
        "SlotState": "placement.states.SlotState",
        "NodeState": "placement.states.NodeState",
        "TaskState": "placement.states.TaskState",
        "Outcome": "placement.states.Outcome",
        "AdmissionRequestState": "admission.states.RequestState",
        "IncreaseState": "tenants.states.IncreaseState",
        "BurstState": "tenants.states.BurstState",
        "OnExcess": "tenants.models.OnExcess",
        "PlacementLevel": "placement.domain.sets.LEVELS",
        "PartKind": "placement.domain.parts.KINDS",
        "SlotCut": "placement.domain.parts.CUTS",
        "AdmissionOutcome": "admission.domain.outcome.OUTCOMES",
        "WorkloadState": "admission.states.WorkloadState",
        "PolicyState": "admission.states.PolicyState",
        "Action": "admission.models.Action",
        "OperationState": "gpuaas.api.serializers.allocations.OPERATION_STATES",
        "Posture": "gpuaas.api.serializers.nodes.POSTURES",
        "Shape": "tenants.models.Shape",
        "OperatorRole": "tenants.models.OperatorRole",
        "Role": "tenants.models.Role",
        "Health": "placement.models.node.Health",
        "Intended": "placement.models.node.Intended",
        "NicMode": "placement.models.inventory.NicMode",
        "CapabilityName": "placement.domain.readiness.CAPABILITIES",
    },
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SERVE_PERMISSIONS": ["gpuaas.api.permissions.Declared"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "persistAuthorization": False},
}

UNFOLD = {
    "SITE_TITLE": "GPU control plane",
    "SITE_HEADER": "GPU control plane",
    "SITE_URL": reverse_lazy("console:home"),
    "SHOW_HISTORY": False,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/ui/icon.svg"}],
    "SIDEBAR": {"navigation": "gpuaas.console.sidebar.navigation"},
    # The accent of the pages, from light to dark.
    "COLORS": {
        "primary": {
            "50": "oklch(97% .014 250)",
            "100": "oklch(93% .032 250)",
            "200": "oklch(88% .06 250)",
            "300": "oklch(81% .1 250)",
            "400": "oklch(71% .14 250)",
            "500": "oklch(60% .15 250)",
            "600": "oklch(46% .14 250)",
            "700": "oklch(42% .13 250)",
            "800": "oklch(37% .11 250)",
            "900": "oklch(33% .09 250)",
            "950": "oklch(25% .07 250)",
        }
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "foreign_pre_chain": [
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["console"], "level": CONFIG.log_level},
    "loggers": {
        "django.server": {"level": "WARNING"},
        "axes": {"level": "ERROR"},
        # It repeats itself on every attempt; whoever needed the connection says so once.
        "psycopg.pool": {"level": "ERROR"},
    },
}
