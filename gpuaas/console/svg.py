"""How is a drawing written down?  Escaped elements, with classes and never a style."""

from __future__ import annotations

from html import escape


def el(tag: str, *children: str, **attributes: object) -> str:
    """One element. Children are markup already; ``cls`` is class, ``_`` in names is ``-``.

    An attribute that is None is left out.
    """
    parts = [tag]
    for name, value in attributes.items():
        if value is None:
            continue
        wire = "class" if name == "cls" else name.rstrip("_").replace("_", "-")
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        parts.append(f'{wire}="{escape(shown, quote=True)}"')
    head = " ".join(parts)
    if not children:
        return f"<{head}/>"
    return f"<{head}>{''.join(children)}</{tag}>"


def text(words: str, x: float, y: float, cls: str, *, anchor: str | None = None) -> str:
    """A line of text, escaped."""
    return el("text", escape(words), x=x, y=y, cls=cls, text_anchor=anchor)


def clip(words: str, most: int) -> str:
    """At most ``most`` characters, with an ellipsis in the middle of what is longer."""
    if len(words) <= most:
        return words
    head = (most - 1) * 2 // 3
    return f"{words[:head]}…{words[-(most - 1 - head) :]}"
