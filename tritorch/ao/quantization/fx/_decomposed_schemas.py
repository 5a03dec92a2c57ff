"""Schemas of `torch.ops.quantized_decomposed`, by the functions that compute them."""

_RANGE = "int quant_min, int quant_max, ScalarType dtype"
_TENSOR_RANGE = "Tensor quant_min, Tensor quant_max, ScalarType dtype"
_NUMBERS = "Tensor input, float scale, int zero_point"
_TENSORS = "Tensor input, Tensor scale, Tensor zero_point"
_MANY = "Tensor input, Tensor scales, Tensor zero_points"
_MANY_OR_NO_ZEROS = "Tensor input, Tensor scales, Tensor? zero_points"
_OUT = "*, ScalarType? out_dtype=None"
_CHOICE = "(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype)"
_TOKENS = "(Tensor input, ScalarType dtype)"
_PAIR = "(Tensor, Tensor)"

SCHEMAS = {
    "quantize_per_tensor": (f"quantize_per_tensor({_NUMBERS}, {_RANGE}) -> Tensor"),
    "quantize_per_tensor_tensor": (f"quantize_per_tensor.tensor({_TENSORS}, {_RANGE}) -> Tensor"),
    "quantize_per_tensor_tensor2": (
        f"quantize_per_tensor.tensor2({_TENSORS}, {_TENSOR_RANGE}) -> Tensor"
    ),
    "dequantize_per_tensor": (f"dequantize_per_tensor({_NUMBERS}, {_RANGE}, {_OUT}) -> Tensor"),
    "dequantize_per_tensor_tensor": (
        f"dequantize_per_tensor.tensor({_TENSORS}, {_RANGE}, {_OUT}) -> Tensor"
    ),
    "dequantize_per_tensor_tensor2": (
        f"dequantize_per_tensor.tensor2({_TENSORS}, {_TENSOR_RANGE}, {_OUT}) -> Tensor"
    ),
    "choose_qparams_tensor": (f"choose_qparams.tensor{_CHOICE} -> {_PAIR}"),
    "choose_qparams_symmetric_tensor": (f"choose_qparams_symmetric.tensor{_CHOICE} -> {_PAIR}"),
    "quantize_per_channel": (f"quantize_per_channel({_MANY}, int axis, {_RANGE}) -> Tensor"),
    "dequantize_per_channel": (
        f"dequantize_per_channel({_MANY_OR_NO_ZEROS}, int axis, {_RANGE}, {_OUT}) -> Tensor"
    ),
    "choose_qparams_per_token": (f"choose_qparams_per_token{_TOKENS} -> {_PAIR}"),
    "_choose_qparams_per_token_asymmetric_impl": (
        f"_choose_qparams_per_token_asymmetric_impl{_TOKENS} -> {_PAIR}"
    ),
    "choose_qparams_per_token_asymmetric": (
        f"choose_qparams_per_token_asymmetric{_TOKENS} -> {_PAIR}"
    ),
    "quantize_per_token": (f"quantize_per_token({_MANY}, {_RANGE}) -> Tensor"),
    "dequantize_per_token": (
        f"dequantize_per_token({_MANY}, {_RANGE}, ScalarType output_dtype) -> Tensor"
    ),
    "quantize_per_channel_group": (
        f"quantize_per_channel_group({_MANY}, {_RANGE}, int group_size) -> Tensor"
    ),
    "dequantize_per_channel_group": (
        f"dequantize_per_channel_group({_MANY_OR_NO_ZEROS}, {_RANGE}, int group_size, "
        "ScalarType output_dtype) -> Tensor"
    ),
    "fake_quant_per_channel": (
        f"fake_quant_per_channel({_MANY}, int axis, int quant_min, int quant_max) -> Tensor"
    ),
    "convert_element_type": (
        "convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor"
    ),
}

# Where these are registered; the others are "CompositeExplicitAutograd".
KEYS = {
    "fake_quant_per_channel": "Autograd",
    "_choose_qparams_per_token_asymmetric_impl": "CompositeImplicitAutograd",
}
