"""How does a part load its code while what it stands on is still starting?

Loading takes longer than anything else at a start and needs no other part. A process that
loads ahead is started at once and waits here for the word to begin, which comes over its input.
"""

import sys

FLAG = "--ahead"
WORD = b"begin\n"


def wait_for_word() -> None:
    """Returns when the runner has said that the parts beneath are ready.

    Raises SystemExit when the runner ends before it has said so.
    """
    if sys.stdin.buffer.readline() != WORD:
        raise SystemExit("the runner ended before this part was to begin")
