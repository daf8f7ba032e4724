"""What it runs on: accelerators, links, instances, prices, calibration records."""
