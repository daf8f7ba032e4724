"""What every test shares: property tests are not timed, since the machine may be busy with other workers.

On CI they draw the same examples every time: a merge must not fail by chance on what it did not change. Runs at home
explore.
"""

import os

from hypothesis import settings

settings.register_profile("infopt", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("infopt")
