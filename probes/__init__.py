"""Measure a device: bandwidth, compute, transfers, links, power, decode steps, drafts. The result is a calibration."""
