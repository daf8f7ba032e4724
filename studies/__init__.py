"""Many scenarios, or a scenario beside a measurement."""
