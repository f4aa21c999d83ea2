"""`python -m opdiff` is the same as `opdiff`."""

import sys

from opdiff.cli import main

sys.exit(main())
