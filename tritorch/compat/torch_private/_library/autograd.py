"""Autograd functions whose arguments and results are lists of tensors."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.trees.walk import tree_flatten, tree_unflatten

__all__ = ["supports_tensorlist"]


def not_list_of_tensor(tree: Any) -> bool:
    """Whether something is one argument: no tuple, and no list of tensors."""
    if isinstance(tree, tuple):
        return False
    return not isinstance(tree, list) or any(not isinstance(x, Tensor) for x in tree)


def not_list_of_optional_tensor(tree: Any) -> bool:
    """Whether something is one gradient: no tuple, and no list of tensors and None."""
    if isinstance(tree, tuple):
        return False
    return not isinstance(tree, list) or any(
        x is not None and not isinstance(x, Tensor) for x in tree
    )


class TensorListMetadata:
    """How the arguments and results of a call are put together; it is the call's last argument."""

    def __init__(self, input_spec: Any) -> None:
        self.input_spec = input_spec
        self.output_spec: Any = None
        self.result_is_tuple = False


def supports_tensorlist(cls: Any) -> Any:
    """Has a class of autograd functions take, and give, lists of tensors: `needs_input_grad` and
    gradients have the same lists."""
    forward, backward, apply = cls.forward, cls.backward, cls.apply

    def new_forward(ctx: Any, *args: Any) -> Any:
        *flat, metadata = args
        if not isinstance(metadata, TensorListMetadata):
            raise NotImplementedError(
                "NYI: calling supports_tensorlist autograd.Function.forward directly. You should "
                "probably be calling .apply instead. Please file an issue if not."
            )
        result = forward(ctx, *tree_unflatten(flat, metadata.input_spec))
        metadata.result_is_tuple = isinstance(result, tuple)
        outputs = result if metadata.result_is_tuple else (result,)
        leaves, metadata.output_spec = tree_flatten(outputs, is_leaf=not_list_of_tensor)
        if hasattr(ctx, "_pt_metadata"):
            raise RuntimeError("Please don't set ctx._pt_metadata; PyTorch uses it to store info")
        ctx._pt_metadata = metadata
        return tuple(leaves)

    def new_backward(ctx: Any, *grads: Any) -> Any:
        metadata = getattr(ctx, "_pt_metadata", None)
        if metadata is None:
            raise NotImplementedError(
                "NYI: calling supports_tensorlist autograd.Function.backward directly. This will "
                "automatically get called by PyTorch autograd. Please file an issue if you need "
                "this."
            )
        needs = ctx._needs
        ctx._needs = tree_unflatten(list(needs[:-1]), metadata.input_spec)
        try:
            found = backward(ctx, *tree_unflatten(list(grads), metadata.output_spec))
        finally:
            ctx._needs = needs
        found = found if isinstance(found, tuple) else (found,)
        leaves, spec = tree_flatten(found, is_leaf=not_list_of_optional_tensor)
        if spec != metadata.input_spec:
            raise RuntimeError(
                "Expected the return from backward to be of the same structure as the inputs. Got: "
                f"{spec} (return from backward), {metadata.input_spec} (inputs)"
            )
        return (*leaves, None)

    def new_apply(*args: Any) -> Any:
        leaves, spec = tree_flatten(args, is_leaf=not_list_of_tensor)
        metadata = TensorListMetadata(spec)
        result = apply(*leaves, metadata)
        result = tree_unflatten(list(result), metadata.output_spec)
        return result if metadata.result_is_tuple else result[0]

    cls.forward, cls.backward = staticmethod(new_forward), staticmethod(new_backward)
    cls.apply = staticmethod(new_apply)
    return cls
