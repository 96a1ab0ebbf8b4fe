"""Test examples as apps have them: arrays, batches (a DataLoader), or a data set of single examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcert.errors import DataProblem

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def examples_in(data: Any) -> Arrays:
    """Test examples and their labels as arrays.

    Args:
        data: (x, y); an iterable of batches (a DataLoader) of such pairs, or of mappings with an image and a label; or
            a data set (anything with a length and single examples by index) of the same.

    Raises:
        DataProblem: it is none of these, or gives no example.
    """
    if _is_pair(data):
        return _array(data[0]), _array(data[1])
    if not _gives_examples(data):
        raise DataProblem(
            f"data must be (x, y), a DataLoader or a data set of images with labels, but is {type(data).__name__}"
        )
    images, labels = [], []
    single = False
    for part in _parts(data):
        image, label = _pair(part)
        single = label.ndim == 0
        images.append(image[None] if single else image)
        labels.append(label[None] if single else label)
    if not images:
        raise DataProblem("there are no test examples: the data gives none")
    shapes = {image.shape[1:] for image in images}
    if len(shapes) > 1:
        first, other = sorted(shapes)[:2]
        raise DataProblem(f"all examples must have one shape, but there are {first} and {other}; resize or crop them")
    return np.concatenate(images), np.concatenate(labels)


def holds_labels(data: Any) -> bool:
    """Whether it gives examples with their labels, so that labels need not be given beside it."""
    return _is_pair(data) or (not hasattr(data, "shape") and not _is_nested_list(data) and _gives_examples(data))


def _is_pair(data: Any) -> bool:
    return isinstance(data, (tuple, list)) and len(data) == 2 and all(hasattr(part, "shape") for part in data)


def _is_nested_list(data: Any) -> bool:
    """A list of plain numbers, or of lists of them, is x alone."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (int, float))


def _gives_examples(data: Any) -> bool:
    if isinstance(data, (str, bytes, Mapping)):
        return False
    return isinstance(data, Iterable) or _is_data_set(data)


def _is_data_set(data: Any) -> bool:
    indexed = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    return indexed and not isinstance(data, (Sequence, Mapping))


def _parts(data: Any) -> Iterator[Any]:
    """Batches or single examples; a data set by index, as not all of them can be iterated over."""
    if _is_data_set(data):
        return (data[index] for index in range(len(data)))
    return iter(data)


def _pair(part: Any) -> Arrays:
    """The image and the label, of one example or of a batch."""
    values = list(part.values()) if isinstance(part, Mapping) else list(part)
    if len(values) != 2:
        raise DataProblem(f"a batch must hold an image and a label for each example, but has {len(values)} parts")
    first, second = (_array(value) for value in values)
    if isinstance(part, Mapping) and first.ndim < second.ndim:  # a mapping may name the label first
        first, second = second, first
    return first, second


def _array(value: Any) -> npt.NDArray[Any]:
    """An array; tensors are copied from wherever they are."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)
