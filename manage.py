#!/usr/bin/env python
"""How does an operator run a command of the control plane?"""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    """Hand the command line to Django."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
