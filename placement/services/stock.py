"""Which pools, kinds of hosts and images are there?  An operator names them before any host comes.

A pool has one queue; a family is what hosts are approved as and SKUs are sold of; an image is
what a lease starts from. Names are for good: SKUs, hosts and agents' settings refer to them;
titles are for people, and change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeVar

from django.db import IntegrityError, transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import is_taken
from gpuaas.kernel.models import Base
from placement.domain.mig import BOARDS, board_of
from placement.models import GpuDevice, Image, NodeFamily, Pool
from placement.selectors.readiness_terms import EVERY
from placement.services.nodes import refused_name
from tenants.domain.names import SHELF_NAME, SHELF_RULE
from tenants.errors import NameTaken

M = TypeVar("M", bound=Base)
MACHINES: Final = ("gpu_slice", "baremetal")
"""What an image may start: a machine on slots, parts included, or a whole host."""
MOST_SLOTS: Final = 62
"""Slots of a host at most: its free ones are kept as bits of one number."""
_ACCOUNT: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def _name_or_refuse(name: str) -> str:
    if not SHELF_NAME.fullmatch(name):
        raise errors.InvalidRequest.of("name", "invalid", SHELF_RULE)
    return name


def _made(row: M, noun: str, name: str, actor: Actor, reason: str, after: dict[str, object]) -> M:
    """Keep a row that is new. Raises NameTaken."""
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken(
            f"There is {noun} {name!r} already.",
            errors=(errors.FieldError("/name", "taken", "the name is taken"),),
        ) from taken
    kind = f"placement.{row._meta.model_name}.create"
    events.record(kind=kind, subject=row, actor=actor, reason=reason, after={"name": name, **after})
    return row


@transaction.atomic
def pool_create(*, name: str, actor: Actor, title: str = "", reason: str = "") -> Pool:
    """A new pool. Raises NameTaken, and InvalidRequest naming the field."""
    row = Pool(name=_name_or_refuse(name), title=title or name)
    return _made(row, "a pool", name, actor, reason, {})


@transaction.atomic
def family_create(
    *,
    name: str,
    slots: int,
    actor: Actor,
    title: str = "",
    gpu_model: str = "",
    reason: str = "",
) -> NodeFamily:
    """A new kind of hosts, of so many slots each. Raises NameTaken, and InvalidRequest."""
    if not 1 <= slots <= MOST_SLOTS:
        raise errors.InvalidRequest.of("slots", "invalid", f"1 to {MOST_SLOTS}")
    if name == EVERY:
        raise errors.InvalidRequest.of(
            "name", "invalid", f"{EVERY} means every family where terms of readiness are set"
        )
    row = NodeFamily(
        name=_name_or_refuse(name), title=title or name, gpu_model=gpu_model, slots=slots
    )
    after: dict[str, object] = {"slots": slots, "gpu_model": gpu_model}
    return _made(row, "a node family", name, actor, reason, after)


def stock_there_or_refuse(family: str, pool: str, part_profile: str) -> None:
    """Before a SKU is made of hosts of a family in a pool: whether there are such, and boards that
    have the profile of its parts. Family and pool stay until the transaction ends.

    Raises InvalidRequest naming what is not there, or not any more.
    """
    rows = (
        ("pool", pool, Pool.objects.select_for_update(no_key=True).filter(name=pool).first()),
        (
            "family",
            family,
            NodeFamily.objects.select_for_update(no_key=True).filter(name=family).first(),
        ),
    )
    wrong = [
        refused_name(noun, named, row)
        for noun, named, row in rows
        if row is None or row.retired_at is not None
    ]
    if wrong:
        raise errors.InvalidRequest(
            " ".join(one.detail for one in wrong),
            errors=tuple(fault for one in wrong for fault in one.errors),
        )
    if part_profile:
        _profile_or_refuse(family, part_profile)


def _profile_or_refuse(family: str, profile: str) -> None:
    """A profile that the boards of the family's hosts have; while it has none, any board."""
    gpus = GpuDevice.objects.filter(node__family__name=family)
    kinds = {board_of(*gpu) for gpu in gpus.values_list("model", "memory_bytes").distinct()}
    found = [board for board in BOARDS if board in kinds]
    if any(board.profile(profile) for board in (found if kinds else BOARDS)):
        return
    if kinds and not found:
        raise errors.InvalidRequest(
            f"part_profile: no GPU of {family} can be cut for MIG.",
            errors=(
                errors.FieldError("/part_profile", "unknown", "its hosts' GPUs have no profiles"),
            ),
        )
    # Of no host yet: the boards that have it without what stands behind it say most.
    plain = re.split(r"[+-]", profile)[0]
    near = found or [board for board in BOARDS if board.profile(plain)] or list(BOARDS)
    known = "; ".join(
        f"{board.name} has {', '.join(row.name for row in board.profiles)}" for board in near
    )
    raise errors.InvalidRequest(
        f"part_profile: no board of {family} has {profile}.",
        errors=(errors.FieldError("/part_profile", "unknown", known),),
    )


@transaction.atomic
def image_create(
    *,
    name: str,
    shapes: Sequence[str],
    actor: Actor,
    title: str = "",
    reference: str = "",
    username: str = "ubuntu",
    reason: str = "",
) -> Image:
    """A new image. ``reference`` is where hosts have it from, for people; hosts know its name.

    Raises NameTaken, and InvalidRequest naming the field.
    """
    starts = [shape for shape in MACHINES if shape in shapes]
    if not starts or len(starts) < len(set(shapes)):
        raise errors.InvalidRequest.of("shapes", "invalid", f"one or both of {', '.join(MACHINES)}")
    if not _ACCOUNT.fullmatch(username):
        raise errors.InvalidRequest.of("username", "invalid", "the name of a Linux account")
    row = Image(
        name=_name_or_refuse(name),
        title=title or name,
        shapes=starts,
        reference=reference or name,
        username=username,
    )
    after: dict[str, object] = {"shapes": starts, "username": username}
    return _made(row, "an image", name, actor, reason, after)


@transaction.atomic
def image_retire(*, name: str, actor: Actor, reason: str) -> Image:
    """No lease starts from it any more; what runs goes on. Repeating it changes nothing.

    Raises NotFound.
    """
    row = Image.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise errors.NotFound
    if row.retired_at is None:
        row.retired_at = clock.db_now()
        row.save(update_fields=["retired_at"])
        events.record(kind="placement.image.retire", subject=row, actor=actor, reason=reason)
    return row
