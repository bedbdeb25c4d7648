"""`python -m streamtopo`: the command line."""

from streamtopo.cli import main

if __name__ == "__main__":
    main(prog_name="streamtopo")
