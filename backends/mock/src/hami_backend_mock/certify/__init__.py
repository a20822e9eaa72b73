"""Certification of limiters: named cases that real processes play on the simulated driver, which is the judge."""
