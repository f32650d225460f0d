"""`python -m trnfleet`."""

from trnfleet.cli.main import main

if __name__ == "__main__":
    main()
