"""`python -m keyline_gateway` is the `keyline` script."""

from keyline_gateway.command import main

if __name__ == "__main__":
    main()
