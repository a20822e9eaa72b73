"""One module per group of kinds: how this project answers a vector, in the words of the vector."""
