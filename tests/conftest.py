"""Settings for all tests: examples do not depend on the machine's speed."""

import signal
from contextlib import suppress

from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# Started in the background, tests would hand ignored interrupts on to the programs that they interrupt.
with suppress(ValueError):
    signal.signal(signal.SIGINT, signal.default_int_handler)
