"""Packaging of a3c_tf; the exact versions that were tested stand in requirements.txt."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "a3c_tf" / "__init__.py").read_text(encoding="utf-8"))[1]

setup(
    name="a3c-tf",
    version=VERSION,
    description="Asynchronous Advantage Actor-Critic (A3C) in TensorFlow 1 graph style on TensorFlow 2",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=find_packages(include=["a3c_tf", "a3c_tf.*"]),
    package_data={"a3c_tf": ["py.typed"]},
    python_requires=">=3.10,<3.14",
    install_requires=[
        "tensorflow>=2.18,<3",
        "gym>=0.26.2,<0.27",
        "numpy>=2.0,<3",
        "matplotlib>=3.8",
        "tensorboard>=2.18",
        "tqdm>=4.60",
        "filelock>=3.12",
        "tyro>=1.0,<2",
    ],
    entry_points={"console_scripts": ["a3c-tf = a3c_tf.commands.cli:main"]},
    extras_require={
        "gymnasium": ["gymnasium>=1.0"],
        "box2d": ["gymnasium>=1.0", "box2d>=2.3.10"],
        "render": ["imageio[ffmpeg]>=2.30", "pygame>=2.5"],
        "dev": ["hypothesis", "mypy", "pytest", "pytest-timeout", "pytest-xdist", "ruff", "types-tqdm"],
    },
    classifiers=[
        "License :: OSI Approved :: MIT License",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
