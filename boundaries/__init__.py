"""Where an optimization starts and stops paying: one file per technique, all through `technique.Technique`.

A technique judges a `Situation` (a scenario and what arrives) and names the quantities its verdict turns on; `roots`
finds the values at which the verdict flips by judging again, so that a break-even and a verdict cannot disagree.
"""
