"""Queries of other processes of a group, over HTTP or sockets, and their signatures."""
