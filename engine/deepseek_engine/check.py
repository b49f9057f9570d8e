"""`python -m deepseek_engine.check DIR`: whether a folder holds a checkpoint of the model, from its headers alone."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .config import ConfigError
from .engram import HashLayout
from .weights import Checkpoint, WeightsError, parameters


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what the folder holds, or in one line what is wrong. Returns the exit status: 0 or 2."""
    parser = argparse.ArgumentParser(prog="python -m deepseek_engine.check", description=__doc__)
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="with config.json, the index and the safetensors files"
    )
    folder: Path = parser.parse_args(arguments).folder
    try:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            checkpoint = Checkpoint(folder)
        HashLayout.of(checkpoint.config)
    except (ConfigError, WeightsError) as error:
        print(f"{folder}: {error}", file=sys.stderr)
        return 2
    for note in notes:
        print(f"note: {note.message}")
    sizes: Counter[str] = Counter()
    for row in parameters(checkpoint.config):
        sizes[row.part] += math.prod(row.shape)
    parts = ", ".join(f"{part} {count:,}" for part, count in sizes.items())
    print(f"{folder}: {len(checkpoint.config.layers)} layers, {len(checkpoint.places):,} tensors; parameters: {parts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
