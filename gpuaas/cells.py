"""How does text stand in a cell of a sheet, without being run as a formula?

The pages and the command line tool both write sheets, and neither may know the other.
"""


def inert(text: str) -> str:
    """A spreadsheet would run a cell that begins like a formula: a tenant chooses its names."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t"} else text
