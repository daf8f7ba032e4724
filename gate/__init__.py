"""Deployment files in, findings out: `readers` turn a file into deployments, `rules` look at them."""
