"""Thinwire trains neural networks over thin, slow or distant links."""

import torch  # loads LibTorch, which _C is linked with

try:
    from thinwire import _C
except ImportError as error:
    raise ImportError(f"thinwire's module does not load: {error}; build it again with `make python`") from error


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


# Objects of another minor version have other layouts in memory: calls would reach the wrong functions.
if _minor(_C.torch_version) != _minor(torch.__version__):
    raise ImportError(
        f"this thinwire was built with torch {_C.torch_version}, here is torch {torch.__version__}: "
        f"build it again with `make python`, or install torch {_minor(_C.torch_version)}"
    )
