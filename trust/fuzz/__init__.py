"""Foreign bytes into every reader of the package: a table of targets, a mutator that knows their forms, two engines."""
