"""Which release is this?  The package, the API document and the command line tool say so from here.

The agent knows nothing of this package: its own constant is held equal by a test.
"""

VERSION = "0.2.0"
