"""Methods of `torch.nn`'s modules in TorchScript, where the library's own are not compiled.

The compiler reads this source; nothing imports it.
"""

# ruff: noqa: F821, UP006, UP035, UP045
from typing import List, Optional, Tuple


class Sequential:
    def forward(self, input):
        for module in self:
            input = module(input)
        return input

    def __len__(self) -> int:
        return len(self)


class _BatchNorm:
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0
        if self.momentum is not None:
            factor = self.momentum
        if self.training and self.track_running_stats:
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                if self.momentum is None:
                    factor = 1.0 / float(self.num_batches_tracked)
        by_batch = True
        if not self.training:
            by_batch = (self.running_mean is None) and (self.running_var is None)
        return F.batch_norm(
            input,
            self.running_mean if not self.training or self.track_running_stats else None,
            self.running_var if not self.training or self.track_running_stats else None,
            self.weight, self.bias, by_batch, factor, self.eps,
        )  # fmt: skip


class BatchNorm1d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 2 and input.dim() != 3:
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm:
    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")


class InstanceNorm1d:
    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 2 and input.dim() != 3:
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")
        single = input.dim() == 2
        if single:
            input = input.unsqueeze(0)
        out = F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0, self.eps,
        )  # fmt: skip
        if single:
            out = out.squeeze(0)
        return out


class InstanceNorm2d:
    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 3 and input.dim() != 4:
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")
        single = input.dim() == 3
        if single:
            input = input.unsqueeze(0)
        out = F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0, self.eps,
        )  # fmt: skip
        if single:
            out = out.squeeze(0)
        return out


class InstanceNorm3d:
    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4 and input.dim() != 5:
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")
        single = input.dim() == 4
        if single:
            input = input.unsqueeze(0)
        out = F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0, self.eps,
        )  # fmt: skip
        if single:
            out = out.squeeze(0)
        return out


class Unflatten:
    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)


class Conv1d:
    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode != "zeros":
            return F.conv1d(
                F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode),
                weight, bias, self.stride, (0,), self.dilation, self.groups,
            )  # fmt: skip
        return F.conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose1d:
    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        extra = self._extra(input, output_size)
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra(self, input: Tensor, output_size: Optional[List[int]]) -> List[int]:
        given: List[int] = list(self.output_padding)
        if output_size is None:
            return given
        sizes = output_size
        if len(sizes) > 1:
            sizes = sizes[len(sizes) - 1 :]
        extra: List[int] = []
        stride: List[int] = list(self.stride)
        kernel: List[int] = list(self.kernel_size)
        padding: List[int] = list(self.padding)
        dilation: List[int] = list(self.dilation)
        for at in range(1):
            smallest = (
                (input.size(at + input.dim() - 1) - 1) * stride[at] - 2 * padding[at]
                + dilation[at] * (kernel[at] - 1) + 1
            )  # fmt: skip
            if sizes[at] < smallest or sizes[at] > smallest + stride[at] - 1:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes start at "
                    f"{smallest}"
                )
            extra.append(sizes[at] - smallest)
        return extra


class Conv2d:
    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode != "zeros":
            return F.conv2d(
                F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode),
                weight, bias, self.stride, (0, 0), self.dilation, self.groups,
            )  # fmt: skip
        return F.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose2d:
    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        extra = self._extra(input, output_size)
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra(self, input: Tensor, output_size: Optional[List[int]]) -> List[int]:
        given: List[int] = list(self.output_padding)
        if output_size is None:
            return given
        sizes = output_size
        if len(sizes) > 2:
            sizes = sizes[len(sizes) - 2 :]
        extra: List[int] = []
        stride: List[int] = list(self.stride)
        kernel: List[int] = list(self.kernel_size)
        padding: List[int] = list(self.padding)
        dilation: List[int] = list(self.dilation)
        for at in range(2):
            smallest = (
                (input.size(at + input.dim() - 2) - 1) * stride[at] - 2 * padding[at]
                + dilation[at] * (kernel[at] - 1) + 1
            )  # fmt: skip
            if sizes[at] < smallest or sizes[at] > smallest + stride[at] - 1:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes start at "
                    f"{smallest}"
                )
            extra.append(sizes[at] - smallest)
        return extra


class Conv3d:
    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode != "zeros":
            return F.conv3d(
                F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode),
                weight, bias, self.stride, (0, 0, 0), self.dilation, self.groups,
            )  # fmt: skip
        return F.conv3d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose3d:
    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        extra = self._extra(input, output_size)
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra(self, input: Tensor, output_size: Optional[List[int]]) -> List[int]:
        given: List[int] = list(self.output_padding)
        if output_size is None:
            return given
        sizes = output_size
        if len(sizes) > 3:
            sizes = sizes[len(sizes) - 3 :]
        extra: List[int] = []
        stride: List[int] = list(self.stride)
        kernel: List[int] = list(self.kernel_size)
        padding: List[int] = list(self.padding)
        dilation: List[int] = list(self.dilation)
        for at in range(3):
            smallest = (
                (input.size(at + input.dim() - 3) - 1) * stride[at] - 2 * padding[at]
                + dilation[at] * (kernel[at] - 1) + 1
            )  # fmt: skip
            if sizes[at] < smallest or sizes[at] > smallest + stride[at] - 1:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes start at "
                    f"{smallest}"
                )
            extra.append(sizes[at] - smallest)
        return extra


class Softmax2d:
    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 3 and input.dim() != 4:
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3, _stacklevel=5)


class EmbeddingBag:
    def forward(
        self, input: Tensor, offsets: Optional[Tensor] = None,
        per_sample_weights: Optional[Tensor] = None,
    ) -> Tensor:  # fmt: skip
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip


class RNNBase:
    def _zeros(self, input: Tensor, batch: int, width: int) -> Tensor:
        directions = 2 if self.bidirectional else 1
        return torch.zeros(
            [self.num_layers * directions, batch, width], dtype=input.dtype, device=input.device
        )


class RNN:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        single = input.dim() == 2
        if single:
            input = input.unsqueeze(0 if self.batch_first else 1)
        batch = input.size(0) if self.batch_first else input.size(1)
        if hx is None:
            state = self._zeros(input, batch, self.hidden_size)
        else:
            state = hx.unsqueeze(1) if single else hx
        if self.mode == "RNN_TANH":
            output, state = torch.rnn_tanh(
                input, state, self._flat_weights, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
        else:
            output, state = torch.rnn_relu(
                input, state, self._flat_weights, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
        if single:
            output = output.squeeze(0 if self.batch_first else 1)
            state = state.squeeze(1)
        return output, state


class GRU:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        single = input.dim() == 2
        if single:
            input = input.unsqueeze(0 if self.batch_first else 1)
        batch = input.size(0) if self.batch_first else input.size(1)
        if hx is None:
            state = self._zeros(input, batch, self.hidden_size)
        else:
            state = hx.unsqueeze(1) if single else hx
        output, state = torch.gru(
            input, state, self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
        if single:
            output = output.squeeze(0 if self.batch_first else 1)
            state = state.squeeze(1)
        return output, state


class LSTM:
    def forward(
        self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        single = input.dim() == 2
        if single:
            input = input.unsqueeze(0 if self.batch_first else 1)
        batch = input.size(0) if self.batch_first else input.size(1)
        if hx is None:
            width = self.proj_size if self.proj_size > 0 else self.hidden_size
            hidden = self._zeros(input, batch, width)
            cell = self._zeros(input, batch, self.hidden_size)
        else:
            hidden, cell = hx
            if single:
                hidden = hidden.unsqueeze(1)
                cell = cell.unsqueeze(1)
        output, hidden, cell = torch.lstm(
            input, [hidden, cell], self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
        if single:
            output = output.squeeze(0 if self.batch_first else 1)
            hidden = hidden.squeeze(1)
            cell = cell.squeeze(1)
        return output, (hidden, cell)


class RNNCell:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        single = input.dim() == 1
        if single:
            input = input.unsqueeze(0)
        if hx is None:
            state = torch.zeros(
                [input.size(0), self.hidden_size], dtype=input.dtype, device=input.device
            )
        else:
            state = hx.unsqueeze(0) if single else hx
        if self.nonlinearity == "tanh":
            out = torch.rnn_tanh_cell(
                input, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
            )
        else:
            out = torch.rnn_relu_cell(
                input, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
            )
        if single:
            out = out.squeeze(0)
        return out


class GRUCell:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        single = input.dim() == 1
        if single:
            input = input.unsqueeze(0)
        if hx is None:
            state = torch.zeros(
                [input.size(0), self.hidden_size], dtype=input.dtype, device=input.device
            )
        else:
            state = hx.unsqueeze(0) if single else hx
        out = torch.gru_cell(
            input, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        if single:
            out = out.squeeze(0)
        return out


class LSTMCell:
    def forward(
        self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tensor]:
        single = input.dim() == 1
        if single:
            input = input.unsqueeze(0)
        if hx is None:
            hidden = torch.zeros(
                [input.size(0), self.hidden_size], dtype=input.dtype, device=input.device
            )
            cell = hidden
        else:
            hidden, cell = hx
            if single:
                hidden = hidden.unsqueeze(0)
                cell = cell.unsqueeze(0)
        hidden, cell = torch.lstm_cell(
            input, [hidden, cell], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        if single:
            hidden = hidden.squeeze(0)
            cell = cell.squeeze(0)
        return hidden, cell


class MultiheadAttention:
    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True, attn_mask: Optional[Tensor] = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:  # fmt: skip
        turned = self.batch_first and query.dim() == 3
        if turned:
            query = query.transpose(1, 0)
            key = key.transpose(1, 0)
            value = value.transpose(1, 0)
        if not self._qkv_same_embed_dim:
            output, weights = F.multi_head_attention_forward(
                query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
                self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
                self.out_proj.weight, self.out_proj.bias, training=self.training,
                key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
                use_separate_proj_weight=True, q_proj_weight=self.q_proj_weight,
                k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
                average_attn_weights=average_attn_weights, is_causal=is_causal,
            )  # fmt: skip
        else:
            output, weights = F.multi_head_attention_forward(
                query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
                self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
                self.out_proj.weight, self.out_proj.bias, training=self.training,
                key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
                average_attn_weights=average_attn_weights, is_causal=is_causal,
            )  # fmt: skip
        if turned:
            return output.transpose(1, 0), weights
        return output, weights


class TransformerEncoderLayer:
    def forward(
        self, src: Tensor, src_mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None, is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = src
        if self.norm_first:
            x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._feed(self.norm2(x))
        x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._feed(x))

    def _attend(
        self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor], is_causal: bool
    ) -> Tensor:
        x = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False,
            is_causal=is_causal,
        )[0]  # fmt: skip
        return self.dropout1(x)

    def _feed(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(x)


class TransformerDecoderLayer:
    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
        memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = tgt
        if self.norm_first:
            x = x + self._attend(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            x = x + self._cross(
                self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )
            return x + self._feed(self.norm3(x))
        x = self.norm1(x + self._attend(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(
            x + self._cross(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        )
        return self.norm3(x + self._feed(x))

    def _attend(
        self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor], is_causal: bool
    ) -> Tensor:
        x = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False,
            is_causal=is_causal,
        )[0]  # fmt: skip
        return self.dropout1(x)

    def _cross(
        self, x: Tensor, memory: Tensor, mask: Optional[Tensor], padding: Optional[Tensor],
        is_causal: bool,
    ) -> Tensor:  # fmt: skip
        x = self.multihead_attn(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False,
            is_causal=is_causal,
        )[0]  # fmt: skip
        return self.dropout2(x)

    def _feed(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(x)


class TransformerEncoder:
    def forward(
        self, src: Tensor, mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None, is_causal: Optional[bool] = None,
    ) -> Tensor:  # fmt: skip
        output = src
        causal = False
        if is_causal is not None:
            causal = is_causal
        for layer in self.layers:
            output = layer(output, mask, src_key_padding_mask, causal)
        if self.norm is not None:
            output = self.norm(output)
        return output


class TransformerDecoder:
    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
        memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: Optional[bool] = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        output = tgt
        causal = False
        if tgt_is_causal is not None:
            causal = tgt_is_causal
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                memory_key_padding_mask, causal, memory_is_causal,
            )  # fmt: skip
        if self.norm is not None:
            output = self.norm(output)
        return output


class Transformer:
    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Optional[Tensor] = None,
        tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None,
        tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None, src_is_causal: Optional[bool] = None,
        tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip


class CircularPad1d:
    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 2 and input.dim() != 3:
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class CircularPad2d:
    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 3 and input.dim() != 4:
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class CircularPad3d:
    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4 and input.dim() != 5:
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")
