"""``python -m hami_core_py``: the command ``hami``."""

from hami_core_py.cli import main

if __name__ == "__main__":
    main()
