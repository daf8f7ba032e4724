"""Draft acceptance with real weights: loading, drafts, the verification loop, and what it costs."""
