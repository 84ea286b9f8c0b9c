"""Dataflow's --setup_file wants a setup.py; everything is in pyproject.toml."""

from setuptools import setup

setup()
