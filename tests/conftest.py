"""Settings of all tests: generated examples have no time limit."""

import signal
from contextlib import suppress

from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# Tests started in the background ignore interrupts, and so would the programs that they interrupt.
with suppress(ValueError):
    signal.signal(signal.SIGINT, signal.default_int_handler)
