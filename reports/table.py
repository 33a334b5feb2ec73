"""A table as data: finished texts, so that the page, the comment and the terminal show the same cells."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

ROW_LIMIT = 60
"""Rows that are shown; audit.json has all. Keeps a page readable and far under its size limit."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Finished cells. The first `words` columns are text, the others numbers (set flush right)."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    note: str = ""

    def pick(self, *columns: int) -> Table:
        """The same table with only these columns, in this order; as many are text as were before."""
        kept = {
            "head": tuple(self.head[column] for column in columns),
            "rows": tuple(tuple(row[column] for column in columns) for row in self.rows),
        }
        return msgspec.structs.replace(self, **kept, words=sum(column < self.words for column in columns))


def table(
    caption: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], words: int = 1, note: str = ""
) -> Table:
    """A `Table` of at most `ROW_LIMIT` rows that says how many it left out."""
    if len(rows) > ROW_LIMIT:
        note = f"{note} {len(rows) - ROW_LIMIT} more rows are in audit.json.".strip()
    return Table(caption=caption, head=head, rows=tuple(rows[:ROW_LIMIT]), words=words, note=note)
