"""What is served: model geometry, weight and cache formats, engines, workloads."""
