"""The vendor-free core of HAMi: placement, sharing, isolation and explanation of accelerators."""
