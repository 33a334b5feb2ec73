"""`python -m ftprof`."""

from ftprof.cli import main

if __name__ == "__main__":
    main()
