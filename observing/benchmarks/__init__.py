"""Results of load generators and benchmarks, read into observations: one file a tool."""
