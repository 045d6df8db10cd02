"""Do tables, lifecycles, migrations and codes keep to the order of the apps?"""

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import models
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from gpuaas.kernel import errors, lifecycle
from tests.architecture.tree import OWN, ROOT, STACK, files, text

# Moved by the workflow engine under its own row lock; the trigger holds it to its table.
WITHOUT_METHODS = frozenset({"kernel.workflowrun"})
SCHEDULER_WORDS = re.compile(r"kubernetes|k8s|\bkube|slurm", re.I)


def own_models() -> list[type[models.Model]]:
    """Models of our apps, without the tables Django makes for many-to-many fields."""
    return [
        model
        for model in apps.get_models(include_auto_created=False)
        if model.__module__.split(".")[0] in OWN
    ]


def rank(model: type[models.Model]) -> int:
    label = model._meta.app_label
    return STACK.index(label) if label in STACK else -1


def own_migrations() -> Iterator[tuple[str, str, object]]:
    loader = MigrationLoader(None)
    for (label, name), migration in sorted(loader.disk_migrations.items()):
        if migration.__module__.split(".")[0] in OWN:
            yield label, name, migration


def import_every(room: str) -> None:
    """Imports ``<app>.<room>`` wherever it exists, so that its registrations are made."""
    for config in apps.get_app_configs():
        name = f"{config.name}.{room}"
        if config.name.split(".")[0] in OWN and importlib.util.find_spec(name) is not None:
            module = importlib.import_module(name)
            for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
                importlib.import_module(found.name)


def test_foreign_keys_point_down_the_stack() -> None:
    uphill = [
        f"{model._meta.label}.{field.name}"
        for model in own_models()
        for field in model._meta.get_fields()
        if field.is_relation
        and not field.auto_created
        and isinstance(field.related_model, type)
        and rank(field.related_model) > rank(model)
    ]
    assert uphill == []


def test_only_the_apps_of_the_stack_have_tables() -> None:
    elsewhere = [m._meta.label for m in own_models() if m._meta.app_label not in STACK]
    assert elsewhere == []


def test_every_model_lives_in_its_apps_models() -> None:
    stray = [
        model._meta.label
        for model in own_models()
        if not model.__module__.startswith(
            f"{apps.get_app_config(model._meta.app_label).name}.models"
        )
    ]
    assert stray == []


def test_every_model_has_an_english_plural() -> None:
    wrong = [
        f"{model._meta.label}: {plural}"
        for model in own_models()
        if re.search(r"[^aeiou]ys$|(s|x|z|ch|sh)s$", plural := str(model._meta.verbose_name_plural))
    ]
    assert wrong == []


def test_no_amount_is_a_float() -> None:
    floats = [
        f"{model._meta.label}.{field.name}"
        for model in own_models()
        for field in model._meta.get_fields()
        if isinstance(field, models.FloatField)
    ]
    assert floats == []


def test_core_models_speak_no_schedulers_dialect() -> None:
    named = [
        f"{model._meta.label}.{field.name}"
        for model in own_models()
        for field in model._meta.get_fields()
        if SCHEDULER_WORDS.search(f"{model._meta.label} {field.name}")
    ]
    sources = [
        name
        for name in files()
        if re.match(r"(gpuaas/kernel|tenants|admission|placement|runtime_enforcement)/", name)
        and re.search(r"/models(/|\.py$)|/states\.py$|/domain/", name)
        and SCHEDULER_WORDS.search(text(name))
    ]
    assert named + sources == []


def test_the_public_schema_speaks_no_schedulers_dialect() -> None:
    document = ROOT / "docs" / "openapi.yaml"
    if not document.exists():
        pytest.skip("docs/openapi.yaml has not been written yet")
    assert SCHEDULER_WORDS.findall(document.read_text(encoding="utf-8")) == []


def test_methods_and_lifecycle_tables_agree() -> None:
    import_every("models")
    wrong = []
    for noun, table in lifecycle.registered().items():
        if noun in WITHOUT_METHODS:
            continue
        model = apps.get_model(noun)
        bound = {
            (move.name, str(move.source), str(move.target), move.custom["by"])
            for move in model().get_all_state_transitions()
        }
        declared = {
            (edge.name, str(source), str(edge.target), edge.by)
            for edge in table.edges.values()
            for source in edge.sources
        }
        if bound != declared:
            wrong.append((noun, sorted(bound ^ declared)))
    assert wrong == []


def test_every_state_is_reached_and_left_unless_final() -> None:
    import_every("states")
    odd = []
    for noun, table in lifecycle.registered().items():
        reached = {table.initial} | {str(target) for _, target in table.pairs()}
        left = {str(source) for source, _ in table.pairs()}
        states = set(table.states.values)
        odd += [f"{noun}: {s} is never reached" for s in sorted(states - reached)]
        odd += [f"{noun}: {s} is never left" for s in sorted(states - left - table.final)]
    assert odd == []


def test_lifecycle_diagrams_are_those_of_the_tables() -> None:
    import_every("states")
    folder = ROOT / "docs" / "lifecycles"
    if not folder.exists():
        pytest.skip("docs/lifecycles has not been printed yet")
    pages = {page.name: page.read_text(encoding="utf-8") for page in folder.glob("*.md")}
    printed = {noun: table.mermaid() for noun, table in lifecycle.registered().items()}
    missing = [
        noun for noun, drawn in printed.items() if not any(drawn in p for p in pages.values())
    ]
    stale = [
        name
        for name, page in pages.items()
        if "stateDiagram" in page and not any(drawn in page for drawn in printed.values())
    ]
    assert missing + stale == []


def test_every_code_is_documented() -> None:
    """The registry refuses a code that is declared twice; here each must have its words."""
    import_every("errors")
    pages = [ROOT / name for name in files() if re.match(r"docs/(errors|reason)[\w/-]*\.md$", name)]
    if not pages:
        pytest.skip("docs/errors has not been written yet")
    words = {page.stem for page in pages}
    for page in pages:
        words |= set(re.findall(r"`([a-z][a-z0-9_]+)`", page.read_text(encoding="utf-8")))
    assert sorted(set(errors.catalogue()) - words) == []


def test_every_code_says_what_would_help() -> None:
    import_every("errors")
    codes = errors.catalogue()
    assert codes
    assert [code for code, entry in codes.items() if not (entry.title and entry.unblock)] == []


def test_no_migration_is_missing() -> None:
    """What makemigrations would write; asked without a database."""
    loader = MigrationLoader(None)
    detector = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
    changes = {
        label: [operation.describe() for migration in found for operation in migration.operations]
        for label, found in detector.changes(graph=loader.graph).items()
    }
    assert changes == {}


def test_migrations_have_names() -> None:
    nameless = [
        f"{label}.{name}"
        for label, name, _ in own_migrations()
        if not re.fullmatch(r"\d{4}_[a-z0-9_]{3,60}", name) or re.search(r"_auto_\d", name)
    ]
    assert nameless == []


def test_migrations_are_in_one_line_per_app() -> None:
    loader = MigrationLoader(None)
    labels = {label for label, _, _ in own_migrations()}
    forked = [label for label in sorted(labels) if len(loader.graph.leaf_nodes(label)) != 1]
    numbers: dict[str, list[int]] = {}
    for label, name, _ in own_migrations():
        numbers.setdefault(label, []).append(int(name[:4]))
    gaps = [label for label, found in numbers.items() if found != list(range(1, len(found) + 1))]
    assert forked + gaps == []


def test_migrations_call_no_service() -> None:
    """A released migration must not change when a service does."""
    moving = [
        name
        for name in files()
        if "/migrations/0" in name
        and re.search(
            r"^\s*(from|import)\s+(tenants|admission|placement|runtime_enforcement)\."
            r"(services|selectors|domain)\b",
            text(name),
            re.M,
        )
    ]
    assert moving == []
