"""`python -m opdiff` is the same as `opdiff`."""

import sys

if not sys.flags.safe_path:
    # Python put the current folder first, which may hold dumps of others and files that are named like modules.
    del sys.path[0]

from opdiff.cli import main

sys.exit(main())
