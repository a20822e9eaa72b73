"""Certificates of our own servers and clients: made, renewed before they end, and made known to those who check them."""
