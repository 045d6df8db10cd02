"""How does an answer reach standard output? In the format that was asked, and nothing else.

Standard output carries data only; everything said to a person goes to standard error.
"""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import yaml
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gpuaas.cells import inert
from gpuaas.cli import jsonpath, values
from gpuaas.cli.problems import Json, UsageError

JSONPATH = "jsonpath="
FORMATS = ("table", "wide", "json", "yaml", "name", "csv", f"{JSONPATH}TEMPLATE")
GAP = "  "
NOTHING = "-"
"""What stands in a cell where there is nothing."""

# Marks around styled text. Control characters, since values.clean() keeps them out of data.
_STYLE, _TEXT, _END = "\x01", "\x02", "\x03"


@dataclass(frozen=True)
class Column:
    """A table column: its heading, and how to read its cell from an item."""

    name: str
    read: Callable[[Json], str]
    wide: bool = False


@dataclass(frozen=True)
class Kind:
    """A kind of object: its name in `kind/ID`, how it is identified, and its columns."""

    name: str
    columns: tuple[Column, ...]
    key: str = "id"
    path: str = ""
    aliases: tuple[str, ...] = field(default=())
    paged: bool = True
    """Whether the server gives the listing page by page; else it comes whole."""

    def reference(self, item: Json) -> str:
        """`kind/ID`, which every command accepts in place of an id."""
        return f"{self.name}/{values.text(item.get(self.key) or item.get('id'))}"


def known_format(form: str) -> str:
    """The format, if there is such a one. Raises UsageError."""
    if form not in FORMATS and not form.startswith(JSONPATH):
        raise UsageError(f"no output format {form!r}; choose from {', '.join(FORMATS)}")
    return form


def column(name: str, path: str = "", *, wide: bool = False) -> Column:
    """A column that shows the member at a dotted path (default: the lower-case heading)."""
    where = path or name.lower()
    return Column(name, lambda item: values.text(member(item, where)), wide)


def member(item: Any, path: str) -> Any:
    """The value at a dotted path such as `states.desired.value`, or None."""
    value = item
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


class Output:
    """Writes answers in the asked format, and messages to standard error."""

    def __init__(
        self,
        form: str = "table",
        *,
        columns: Sequence[str] = (),
        headers: bool = True,
        quiet: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.form = known_format(form)
        self.columns = tuple(columns)
        self.headers = headers
        self.quiet = quiet
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        self.colour = _wants_colour(self.stdout)
        self.animate = _wants_colour(self.stderr) and not quiet
        self._console = Console(file=self.stdout, highlight=False)

    @property
    def for_people(self) -> bool:
        """Whether the format is meant to be read rather than parsed."""
        return self.form in {"table", "wide"} and not self.columns

    def items(self, kind: Kind, items: Iterable[Json]) -> None:
        """A listing: a table of rows, a JSON or YAML array, or one `kind/ID` a line."""
        rows = list(items)
        if self.form == "name":
            for row in rows:
                self.line(kind.reference(row))
        elif self.form in {"json", "yaml"}:
            self.data([self._projected(kind, row) for row in rows] if self.columns else rows)
        elif self.form.startswith(JSONPATH):
            self._picked({"items": rows})
        elif self.form == "csv":
            self._csv(self._chosen(kind), rows)
        else:
            self._table(self._chosen(kind), rows)

    def item(self, kind: Kind, item: Json, describe: Callable[[Json], Iterable[str]]) -> None:
        """One object: `describe` gives the lines for people; other formats as in `items`."""
        if self.for_people:
            for line in describe(item):
                self.line(line)
        elif self.form in {"json", "yaml"}:
            self.data(self._projected(kind, item) if self.columns else item)
        elif self.form.startswith(JSONPATH):
            self._picked(item)
        else:
            self.items(kind, [item])

    def data(self, value: Any) -> None:
        """A value as JSON, or as YAML when that was asked."""
        if self.form == "yaml":
            self.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
        else:
            self.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def document(self, value: Any) -> None:
        """One of a stream of values: a JSON line, or a YAML document."""
        if self.form == "yaml":
            self.stdout.write("---\n")
            self.data(value)
        else:
            self.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")

    def line(self, line: str) -> None:
        """One line of data; marked styles show on a colour terminal only."""
        text = styled(line)
        if not self.colour:
            self.stdout.write(_encodable(text.plain.rstrip(), self.stdout) + "\n")
            return
        self._console.print(text, soft_wrap=True)

    def say(self, message: str) -> None:
        """A message to the person, unless -q."""
        if not self.quiet:
            self.stderr.write(_encodable(message, self.stderr) + "\n")
            self.stderr.flush()

    def error(self, message: str) -> None:
        """An error to the person, always."""
        self.stderr.write(_encodable(message, self.stderr) + "\n")
        self.stderr.flush()

    def _chosen(self, kind: Kind) -> list[Column]:
        if not self.columns:
            return [c for c in kind.columns if self.form in {"wide", "csv"} or not c.wide]
        known = {c.name.lower(): c for c in kind.columns}
        return [known.get(name.lower()) or column(name.upper(), name) for name in self.columns]

    def _projected(self, kind: Kind, item: Json) -> Json:
        known = {c.name.lower() for c in kind.columns}
        readers = {c.name.lower(): c for c in kind.columns}
        shown: Json = {}
        for name in self.columns:
            raw = member(item, name)
            derived = raw is None and name.lower() in known
            shown[name] = readers[name.lower()].read(item) if derived else raw
        return shown

    def _picked(self, answer: Any) -> None:
        shown = jsonpath.picked(self.form.removeprefix(JSONPATH), answer)
        self.stdout.write(_encodable(shown, self.stdout) + "\n")

    def _csv(self, columns: Sequence[Column], rows: Sequence[Json]) -> None:
        writer = csv.writer(self.stdout, lineterminator="\n")
        if self.headers:
            writer.writerow([c.name for c in columns])
        for row in rows:
            cells = [styled(c.read(row) or "").plain for c in columns]
            # What is not there is "-" to a person, and an empty cell to a sheet.
            writer.writerow(
                [_encodable("" if cell == NOTHING else inert(cell), self.stdout) for cell in cells]
            )

    def _table(self, columns: Sequence[Column], rows: Sequence[Json]) -> None:
        cells = [[c.read(row) or NOTHING for c in columns] for row in rows]
        widths = [
            max(
                [cell_len(c.name) if self.headers else 0]
                + [cell_len(styled(row[i]).plain) for row in cells]
            )
            for i, c in enumerate(columns)
        ]
        if self.headers:
            self.line(GAP.join(_pad(c.name, w) for c, w in zip(columns, widths, strict=True)))
        for row in cells:
            self.line(GAP.join(_pad(paint(c), w) for c, w in zip(row, widths, strict=True)))


def paint(state: str, label: str = "") -> str:
    """A state word (or `label` in the state's colour) marked up for `Output.line`."""
    style = values.colour(state)
    shown = label or state
    return f"{_STYLE}{style}{_TEXT}{shown}{_END}" if style else shown


def bold(label: str) -> str:
    """A heading, marked up for `Output.line`."""
    return f"{_STYLE}bold{_TEXT}{label}{_END}"


def styled(line: str) -> Text:
    """The line with its marks turned into styles."""
    text = Text()
    for index, part in enumerate(line.split(_STYLE)):
        if index == 0:
            text.append(part)
            continue
        style, _, rest = part.partition(_TEXT)
        inner, _, following = rest.partition(_END)
        text.append(inner, style=style)
        text.append(following)
    return text


def _pad(cell: str, width: int) -> str:
    return cell + " " * max(0, width - cell_len(styled(cell).plain))


def _wants_colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def _encodable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding, "replace")
