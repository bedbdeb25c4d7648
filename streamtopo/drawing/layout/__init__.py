"""The positions of everything in a drawing."""
