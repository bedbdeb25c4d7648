"""The site of the docs: `python -m website` builds it. Not a part of the package."""
