"""Measuring the real servers: made-up clusters, a loopback API that serves them, and a client that counts milliseconds."""
