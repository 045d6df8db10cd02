"""How many tests passed, failed and were skipped?  From pytest's XML report, as one line.

Usage: counts.py REPORT [FAILED PART...]; each failed part beside the tests counts as one.
"""

import sys
from pathlib import Path

from defusedxml.ElementTree import parse


def main(report: Path, failed_parts: list[str]) -> str:
    """The closing line. Tests that could not be run count as one failure."""
    passed = skipped = 0
    failed = sum(part != "test" for part in failed_parts)
    root = parse(report).getroot() if report.exists() else None
    if root is not None:
        for suite in root.iter("testsuite"):
            count = {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors")}
            skips = int(suite.get("skipped", "0"))
            broken = count["failures"] + count["errors"]
            passed += count["tests"] - broken - skips
            failed += broken
            skipped += skips
    if "test" in failed_parts and not failed:
        failed = 1  # pytest itself failed: nothing was collected, or it was killed
    return f"{passed} passed, {failed} failed, {skipped} skipped"


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2:]))
