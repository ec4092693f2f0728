"""The cases of the corpus, by kind of failure."""
