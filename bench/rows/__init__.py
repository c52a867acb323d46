# SPDX-License-Identifier: BSD-3-Clause
"""What bench/run measures: each module has a table MEASUREMENTS."""
from . import calls, connections, idle, many, untouched

MEASUREMENTS = {**calls.MEASUREMENTS, **connections.MEASUREMENTS, **idle.MEASUREMENTS,
                **many.MEASUREMENTS, **untouched.MEASUREMENTS}
