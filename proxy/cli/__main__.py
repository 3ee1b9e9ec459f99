"""`python -m proxy.cli` is the `keyline` script."""

from proxy.cli.main import main

if __name__ == "__main__":
    main()
