"""How does the wire say what is wrong with a document it was given?"""

from __future__ import annotations


class WireError(ValueError):
    """A document that does not follow the protocol.

    pointer: JSON pointer (RFC 6901) to the offending value, "" for the whole document.
    code: one of the permanent snake_case codes below.
    detail: one sentence for people; never contains the offending value itself, since that may be
    a secret or huge.

    Codes: not_json, too_large, too_deep, duplicate_key, wrong_type, missing, unknown_field,
    too_long, too_short, out_of_range, bad_characters, bad_format, unknown_value, too_many,
    not_unique.
    """

    def __init__(self, pointer: str, code: str, detail: str) -> None:
        super().__init__(f"{pointer or '(document)'}: {detail} [{code}]")
        self.pointer = pointer
        self.code = code
        self.detail = detail


def child_pointer(pointer: str, key: str | int) -> str:
    """The pointer of a member of the value at `pointer`; a long foreign key is cut short."""
    text = str(key)[:64].replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{text}"
