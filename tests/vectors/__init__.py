"""Golden vectors: what HAMi v2.10.0 answers to given inputs, put to this project. ``python -m tests.vectors FILE.jsonl …``

``files`` reads them, ``world`` makes backends of their configuration, ``answers`` has one module per group of kinds,
``compare`` says what differs, ``runner`` counts. Where we differ on purpose ``ours/*.json`` has our answer and its reason.
"""
