"""Which JSON types may a field have?  Exactly its own: no number for text, no text for a number."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gpuaas.api.problems import InvalidQuery, field_errors
from gpuaas.kernel.errors import InvalidRequest


class Text(serializers.CharField):
    """A string, at most ``max_length`` characters, kept as it is."""

    default_error_messages = {"wrong_type": "Expected a string."}  # noqa: RUF012 - DRF's own form

    def __init__(self, *, max_length: int, **kwargs: Any) -> None:
        kwargs.setdefault("trim_whitespace", False)
        super().__init__(max_length=max_length, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        """Refuses what only looks like text."""
        if not isinstance(data, str):
            self.fail("wrong_type")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """An integer within bounds; 1.0, "1" and true are not."""

    default_error_messages = {"wrong_type": "Expected an integer."}  # noqa: RUF012 - DRF's form

    def __init__(self, *, min_value: int, max_value: int, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        """Refuses what only looks like an integer."""
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("wrong_type")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """true or false, and no word for either."""

    default_error_messages = {"wrong_type": "Expected true or false."}  # noqa: RUF012 - DRF's form

    def to_internal_value(self, data: Any) -> bool:
        """Refuses what only looks like a flag."""
        if not isinstance(data, bool):
            self.fail("wrong_type")
        return data


class Id(serializers.UUIDField):
    """A UUID in its text form."""

    default_error_messages = {"wrong_type": "Expected a UUID."}  # noqa: RUF012 - DRF's own form

    def to_internal_value(self, data: Any) -> UUID:
        """Refuses numbers."""
        if not isinstance(data, str):
            self.fail("wrong_type")
        value: UUID = super().to_internal_value(data)
        return value


class Input(serializers.Serializer[Any]):
    """A request's body or query. A member that is not declared is refused by name."""

    def to_internal_value(self, data: Any) -> Any:
        """The validated members."""
        if isinstance(data, dict):
            strange = [key for key in data if key not in self.fields]
            if strange:
                raise serializers.ValidationError(
                    {
                        key: serializers.ErrorDetail("This is not known here.", "unknown_field")
                        for key in strange[:100]
                    }
                )
        return super().to_internal_value(data)

    @classmethod
    def read(cls, data: Any) -> dict[str, Any]:
        """The members of a JSON body. Raises InvalidRequest naming each wrong one."""
        return cls._read(data, InvalidRequest)

    @classmethod
    def _read(cls, data: Any, error: type[InvalidRequest]) -> dict[str, Any]:
        try:
            return dict(_reader(cls).run_validation(data))
        except serializers.ValidationError:
            # Told by a reader of its own: DRF keeps what is wrong with the data.
            serializer = cls(data=data)
            _name_choices(serializer)
            serializer.is_valid()
        wrong = tuple(field_errors(serializer.errors))
        named = ", ".join(one.pointer or "the document" for one in wrong[:5])
        raise error(f"Not valid: {named}.", errors=wrong)


def _name_choices(serializer: serializers.Serializer[Any]) -> None:
    """Let a field that takes one of a few words name them when it refuses another."""
    for field in serializer.fields.values():
        one = field.child if isinstance(field, serializers.ListField) else field
        if isinstance(one, serializers.ChoiceField):
            words = ", ".join(str(choice) for choice in one.choices if choice != "")
            one.error_messages["invalid_choice"] = f'"{{input}}" is not one of {words}.'


@cache
def _reader(kind: type[Input]) -> Input:
    """One reader for all bodies of a kind: to read keeps nothing in it, and its fields, which
    DRF copies for each new one, cost more than the reading."""
    reader = kind()
    # Filled here, by one thread.
    _ = reader.fields
    return reader


class Query(Input):
    """A query string. ``tenant`` is understood everywhere; it has chosen the scope already."""

    tenant = serializers.CharField(
        required=False, max_length=64, help_text="Work in this tenant: its slug or id."
    )

    @classmethod
    def read(cls, data: Any) -> dict[str, Any]:
        """The parameters. Raises InvalidQuery naming each wrong one; twice the same is wrong."""
        flat = {key: data.getlist(key) for key in data}
        many = {
            name
            for name, field in _reader(cls).fields.items()
            if isinstance(field, serializers.ListField)
        }
        plain = {
            key: values if key in many else (values[0] if len(values) == 1 else values)
            for key, values in flat.items()
        }
        return cls._read(plain, InvalidQuery)


class Paged(Query):
    """What every list takes: this, where it may be long."""

    limit = serializers.IntegerField(
        required=False, min_value=1, help_text="Items a page: 50 unless given, 1000 at most."
    )
    cursor = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=2000,
        help_text="The 'next' of the page before; empty at the end.",
    )


class Short(Paged):
    """The same of a list that is short and made whole: all of it comes unless a limit is given."""

    limit = serializers.IntegerField(
        required=False, min_value=1, help_text="Items a page: all unless given, 1000 at most."
    )


ORDERINGS = ("-created_at", "created_at")


class Dated(Paged):
    """What a list takes whose items came to be one after the other."""

    created_after = serializers.DateTimeField(
        required=False, help_text="Only what came to be after this moment (ISO 8601)."
    )
    created_before = serializers.DateTimeField(
        required=False, help_text="Only what came to be before this moment."
    )
    ordering = serializers.ChoiceField(
        choices=ORDERINGS, required=False, help_text="-created_at, newest first, unless given."
    )


class AnyOf(serializers.ListField):
    """A filter that may be given several times: what is any of these words."""

    def __init__(self, choices: Any, **kwargs: Any) -> None:
        child = serializers.ChoiceField(choices=choices)
        super().__init__(child=child, required=False, max_length=32, **kwargs)

    def run_child_validation(self, data: Any) -> list[Any]:
        """The words. The first that is none is told under the parameter's own name."""
        return [self.child.run_validation(word) for word in data]


@extend_schema_field(OpenApiTypes.OBJECT)
class JsonObject(serializers.JSONField):
    """An object whose members depend on what it is about."""


class Output(serializers.Serializer[Any]):
    """A response's body."""


def moment(at: datetime | None) -> str | None:
    """A time in an answer, as DRF's field writes it: in UTC, ending in Z."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
