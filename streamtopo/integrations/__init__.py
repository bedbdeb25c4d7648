"""Where streamtopo meets other frameworks: a package for each, which alone imports it."""
