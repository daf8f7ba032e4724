"""What every test shares: property tests are not timed, since the machine may be busy with other workers."""

from hypothesis import settings

settings.register_profile("infopt", deadline=None)
settings.load_profile("infopt")
