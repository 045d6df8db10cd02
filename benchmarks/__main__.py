"""Run every benchmark that needs nothing from outside."""

import sys

from benchmarks import claims

if __name__ == "__main__":
    sys.exit(claims.main())
