"""Runs a topology: joins the description with logs and stores."""
