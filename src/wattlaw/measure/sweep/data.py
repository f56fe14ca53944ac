"""Batches: tokens drawn at random, or consecutive pieces of a text that was tokenised before.

The batch of all data-parallel ranks is made first and then divided, so that one device with the whole batch and
several with a part each train on the same tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from wattlaw.errors import DataError, FileError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from wattlaw.run import RunSpec


def read_tokens(path: Path) -> NDArray[np.int64]:
    """Read a tokenised text: whole numbers between blanks, or a one-dimensional ``.npy`` file of integers.

    Raises:
        FileError: the file cannot be read, or holds other things than token numbers.
    """
    import numpy as np

    try:
        if path.suffix == ".npy":
            tokens = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            tokens = np.array(path.read_text(encoding="ascii").split(), dtype=np.int64)
    except OSError as error:
        raise FileError("cannot read the tokens", given=error.strerror).at(path) from error
    except ValueError as error:
        raise FileError("not a file of token numbers", given=error, allowed="whole numbers, or .npy").at(
            path
        ) from error
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or not tokens.size:
        raise FileError("not a row of token numbers", given=f"{tokens.dtype} of shape {tokens.shape}").at(path)
    return cast("NDArray[np.int64]", tokens)


def check_tokens(tokens: NDArray[np.int64], vocab_size: float, place: object) -> None:
    """Refuse a text with tokens that the model has no row for.

    Raises:
        DataError: a token is negative or not below ``vocab_size``.
    """
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocab_size:
        raise DataError("the text has tokens outside of the vocabulary", given=f"{low} to {high}",
                        allowed=f"0 to {int(vocab_size) - 1}").at(place)  # fmt: skip


def make_batches(
    spec: RunSpec,
    *,
    data_rank: int,
    count: int,
    device: torch.device,
    seed: int,
    tokens: NDArray[np.int64] | None = None,
) -> list[dict[str, torch.Tensor]]:
    """Make the batches of one data-parallel rank.

    Labels of a classification are random; of a language model they are the tokens.

    Args:
        spec: gives batch size, length, vocabulary and head.
        data_rank: which part of each batch.
        count: how many batches.
        device: where they are put.
        seed: of the random numbers.
        tokens: a text to take the tokens from, round and round.
    """
    import torch

    architecture, recipe = spec.architecture, spec.recipe
    local, length = int(recipe.batch_size), int(recipe.seq_len)
    whole = local * int(spec.layout.data_parallel)
    generator = torch.Generator().manual_seed(seed)
    part = slice(data_rank * local, (data_rank + 1) * local)
    batches: list[dict[str, Any]] = []
    for number in range(count):
        if tokens is None:
            ids = torch.randint(0, int(architecture.vocab_size), (whole, length), generator=generator)
        else:
            ids = _piece(tokens, number * whole * length, whole, length)
        labels = ids
        if architecture.head == "classification":
            labels = torch.randint(0, int(architecture.num_labels), (whole,), generator=generator)
        batches.append({"input_ids": ids[part].to(device), "labels": labels[part].to(device)})
    return batches


def _piece(tokens: NDArray[np.int64], start: int, rows: int, length: int) -> torch.Tensor:
    import numpy as np
    import torch

    places = np.arange(start, start + rows * length) % tokens.size
    return torch.from_numpy(tokens[places].astype(np.int64)).view(rows, length)
