"""Discrete-event simulation of serving engines: requests wait, enter a batch, grow in the cache, and leave."""
