"""LSTMs of linear maps and operators that can be observed and quantized one by one."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.core.tensor import Tensor
from tritorch.nn.parameter import Parameter

__all__ = ["LSTM", "LSTMCell"]

_GATES = ("input", "forget", "cell", "output")


class LSTMCell(nn.Module):
    """One step of an LSTM; split_gates: each gate has linear maps of its own."""

    _FLOAT_MODULE: ClassVar[Any] = nn.LSTMCell
    __constants__ = ["split_gates"]  # noqa: RUF012

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None,
        dtype: Any = None, *, split_gates: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        functional = torch.ao.nn.quantized.FloatFunctional
        self.input_size = input_dim
        self.hidden_size = hidden_dim
        self.bias = bias
        self.split_gates = split_gates
        self.igates: Any
        self.hgates: Any
        self.gates: Any
        if split_gates:
            self.igates, self.hgates, self.gates = (nn.ModuleDict() for _ in range(3))
            for gate in _GATES:
                self.igates[gate] = nn.Linear(input_dim, hidden_dim, bias=bias, **where)
                self.hgates[gate] = nn.Linear(hidden_dim, hidden_dim, bias=bias, **where)
                self.gates[gate] = functional()
        else:
            self.igates = nn.Linear(input_dim, 4 * hidden_dim, bias=bias, **where)
            self.hgates = nn.Linear(hidden_dim, 4 * hidden_dim, bias=bias, **where)
            self.gates = functional()
        self.input_gate = nn.Sigmoid()
        self.forget_gate = nn.Sigmoid()
        self.cell_gate = nn.Tanh()
        self.output_gate = nn.Sigmoid()
        self.fgate_cx = functional()
        self.igate_cgate = functional()
        self.fgate_cx_igate_cgate = functional()
        self.ogate_cy = functional()
        self.initial_hidden_state_qparams: tuple[float, int] = (1.0, 0)
        self.initial_cell_state_qparams: tuple[float, int] = (1.0, 0)
        self.hidden_state_dtype: torch.dtype = torch.quint8
        self.cell_state_dtype: torch.dtype = torch.quint8

    def forward(
        self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The next states."""
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        hx, cx = hidden
        if not self.split_gates:
            gates = self.gates.add(self.igates(x), self.hgates(hx))
            input_gate, forget_gate, cell_gate, out_gate = gates.chunk(4, 1)
            input_gate = self.input_gate(input_gate)
            forget_gate = self.forget_gate(forget_gate)
            cell_gate = self.cell_gate(cell_gate)
            out_gate = self.output_gate(out_gate)
        else:
            gate = {}
            for (key, gates), igates, hgates in zip(
                self.gates.items(), self.igates.values(), self.hgates.values()
            ):
                gate[key] = gates.add(igates(x), hgates(hx))
            input_gate = self.input_gate(gate["input"])
            forget_gate = self.forget_gate(gate["forget"])
            cell_gate = self.cell_gate(gate["cell"])
            out_gate = self.output_gate(gate["output"])
        fgate_cx = self.fgate_cx.mul(forget_gate, cx)
        igate_cgate = self.igate_cgate.mul(input_gate, cell_gate)
        cy = self.fgate_cx_igate_cgate.add(fgate_cx, igate_cgate)
        tanh_cy = torch.tanh(cy)
        hy = self.ogate_cy.mul(out_gate, tanh_cy)
        return hy, cy

    def initialize_hidden(
        self, batch_size: int, is_quantized: bool = False
    ) -> tuple[Tensor, Tensor]:
        """States of zeros."""
        h = torch.zeros((batch_size, self.hidden_size))
        c = torch.zeros((batch_size, self.hidden_size))
        if is_quantized:
            h_scale, h_zp = self.initial_hidden_state_qparams
            c_scale, c_zp = self.initial_cell_state_qparams
            h = torch.quantize_per_tensor(
                h, scale=h_scale, zero_point=h_zp, dtype=self.hidden_state_dtype
            )
            c = torch.quantize_per_tensor(
                c, scale=c_scale, zero_point=c_zp, dtype=self.cell_state_dtype
            )
        return h, c

    def _get_name(self) -> str:
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(
        cls, wi: Tensor, wh: Tensor, bi: Any = None, bh: Any = None, split_gates: bool = False
    ) -> Any:
        """A cell with these weights and biases, whose rows are of the four gates."""
        if (bi is None) != (bh is None):
            raise AssertionError("bi and bh must both be None or both have values")
        cell = cls(
            input_dim=wi.shape[1], hidden_dim=wh.shape[1], bias=bi is not None,
            split_gates=split_gates,
        )  # fmt: skip
        for weight, bias, gates in ((wi, bi, cell.igates), (wh, bh, cell.hgates)):
            maps = list(gates.values()) if split_gates else [gates]
            for name, values in (("weight", weight), ("bias", bias)):
                if values is not None:
                    for linear, part in zip(maps, values.chunk(len(maps), dim=0)):
                        setattr(linear, name, Parameter(part))
        return cell

    @classmethod
    def from_float(
        cls, other: Any, use_precomputed_fake_quant: bool = False, split_gates: bool = False
    ) -> Any:
        """The quantizable module of a float one."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        observed = cls.from_params(
            other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh, split_gates=split_gates
        )
        gates = [observed.igates, observed.hgates]
        if split_gates:
            gates += [gate for both in gates for gate in both.values()]
        for module in (observed, *gates):
            module.qconfig = other.qconfig
        return observed


class _LSTMSingleLayer(nn.Module):
    """One layer and direction: a cell, called step by step."""

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None,
        dtype: Any = None, *, split_gates: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.cell = LSTMCell(
            input_dim, hidden_dim, bias=bias, split_gates=split_gates, device=device, dtype=dtype
        )

    def forward(self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None):  # type: ignore[no-untyped-def]
        """All outputs, and the last states."""
        result = []
        seq_len = x.shape[0]
        for i in range(seq_len):
            hidden = self.cell(x[i], hidden)
            result.append(hidden[0])
        return torch.stack(result, 0), hidden

    @classmethod
    def from_params(cls, *args: Any, **kwargs: Any) -> Any:
        """A layer with a cell that has these parameters."""
        cell = LSTMCell.from_params(*args, **kwargs)
        layer = cls(cell.input_size, cell.hidden_size, cell.bias, split_gates=cell.split_gates)
        layer.cell = cell
        return layer


class _LSTMLayer(nn.Module):
    """One layer, in one direction or two."""

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, batch_first: bool = False,
        bidirectional: bool = False, device: Any = None, dtype: Any = None, *,
        split_gates: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        settings = {"split_gates": split_gates, "device": device, "dtype": dtype}
        self.layer_fw = _LSTMSingleLayer(input_dim, hidden_dim, bias=bias, **settings)
        if self.bidirectional:
            self.layer_bw = _LSTMSingleLayer(input_dim, hidden_dim, bias=bias, **settings)

    def forward(self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None):  # type: ignore[no-untyped-def]
        """All outputs, and the last states; those of two directions are stacked."""
        if self.batch_first:
            x = x.transpose(0, 1)
        if hidden is None:
            hx_fw, cx_fw = (None, None)
        else:
            hx_fw, cx_fw = hidden
        hidden_bw: tuple[Tensor, Tensor] | None = None
        if self.bidirectional:
            if hx_fw is None:
                hx_bw = None
            else:
                hx_bw = hx_fw[1]
                hx_fw = hx_fw[0]
            if cx_fw is None:
                cx_bw = None
            else:
                cx_bw = cx_fw[1]
                cx_fw = cx_fw[0]
            if hx_bw is not None and cx_bw is not None:
                hidden_bw = hx_bw, cx_bw
        if hx_fw is None and cx_fw is None:
            hidden_fw = None
        else:
            hidden_fw = torch.jit._unwrap_optional(hx_fw), torch.jit._unwrap_optional(cx_fw)
        result_fw, hidden_fw = self.layer_fw(x, hidden_fw)
        if hasattr(self, "layer_bw") and self.bidirectional:
            result_bw, hidden_bw = self.layer_bw(x.flip(0), hidden_bw)
            result = torch.cat([result_fw, result_bw.flip(0)], result_fw.dim() - 1)
            if hidden_fw is None and hidden_bw is None:
                h = None
                c = None
            elif hidden_fw is None:
                h, c = torch.jit._unwrap_optional(hidden_bw)
            elif hidden_bw is None:
                h, c = torch.jit._unwrap_optional(hidden_fw)
            else:
                h = torch.stack([hidden_fw[0], hidden_bw[0]], 0)
                c = torch.stack([hidden_fw[1], hidden_bw[1]], 0)
        else:
            result = result_fw
            h, c = torch.jit._unwrap_optional(hidden_fw)
        if self.batch_first:
            result.transpose_(0, 1)
        return result, (h, c)

    @classmethod
    def from_float(cls, other: Any, layer_idx: int = 0, qconfig: Any = None, **kwargs: Any) -> Any:
        """The layer of this number of a float LSTM; kwargs: settings instead of that one's."""
        if not hasattr(other, "qconfig") and qconfig is None:
            raise AssertionError("other must have qconfig or qconfig must be provided")
        split_gates = kwargs.get("split_gates", False)
        names = ("input_size", "hidden_size", "bias", "batch_first", "bidirectional")
        settings = [kwargs.get(name, getattr(other, name)) for name in names]
        layer: Any = cls(*settings, split_gates=split_gates)
        layer.qconfig = getattr(other, "qconfig", qconfig)
        ends = {"layer_fw": "", "layer_bw": "_reverse"} if other.bidirectional else {"layer_fw": ""}
        for name, end in ends.items():
            params = [
                getattr(other, f"{part}_l{layer_idx}{end}", None)
                for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            setattr(layer, name, _LSTMSingleLayer.from_params(*params, split_gates=split_gates))
        return layer


class LSTM(nn.Module):
    """An LSTM whose parts can be observed and quantized; it is in evaluation mode at first."""

    _FLOAT_MODULE: ClassVar[Any] = nn.LSTM

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None, *, split_gates: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.training = False
        if (
            not isinstance(dropout, numbers.Number)
            or isinstance(dropout, bool)
            or not 0 <= dropout <= 1
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0:
            warnings.warn(
                "dropout option for quantizable LSTM is ignored. If you are training, please, use "
                "nn.LSTM version followed by `prepare` step.",
                stacklevel=2,
            )
            if num_layers == 1:
                warnings.warn(
                    "dropout option adds dropout after all but last recurrent layer, so non-zero "
                    f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                    f"num_layers={num_layers}",
                    stacklevel=2,
                )
        self.layers = nn.ModuleList(
            _LSTMLayer(
                hidden_size if layer else input_size, hidden_size, bias, batch_first=False,
                bidirectional=bidirectional, device=device, dtype=dtype, split_gates=split_gates,
            )
            for layer in range(max(num_layers, 1))
        )  # fmt: skip

    def forward(self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None):  # type: ignore[no-untyped-def]
        """All outputs of the last layer, and the last states of all."""
        if self.batch_first:
            x = x.transpose(0, 1)
        max_batch_size = x.size(1)
        num_directions = 2 if self.bidirectional else 1
        if hidden is None:
            zeros = torch.zeros(
                num_directions,
                max_batch_size,
                self.hidden_size,
                dtype=torch.float,
                device=x.device,
            )
            zeros.squeeze_(0)
            if x.is_quantized:
                zeros = torch.quantize_per_tensor(zeros, scale=1.0, zero_point=0, dtype=x.dtype)
            hxcx = [(zeros, zeros) for _ in range(self.num_layers)]
        else:
            hidden_non_opt = torch.jit._unwrap_optional(hidden)
            if isinstance(hidden_non_opt[0], Tensor):
                hx = hidden_non_opt[0].reshape(
                    self.num_layers, num_directions, max_batch_size, self.hidden_size
                )
                cx = hidden_non_opt[1].reshape(
                    self.num_layers, num_directions, max_batch_size, self.hidden_size
                )
                hxcx = [(hx[idx].squeeze(0), cx[idx].squeeze(0)) for idx in range(self.num_layers)]
            else:
                hxcx = hidden_non_opt
        hx_list = []
        cx_list = []
        for idx, layer in enumerate(self.layers):
            x, (h, c) = layer(x, hxcx[idx])
            hx_list.append(torch.jit._unwrap_optional(h))
            cx_list.append(torch.jit._unwrap_optional(c))
        hx_tensor = torch.stack(hx_list)
        cx_tensor = torch.stack(cx_list)
        hx_tensor = hx_tensor.reshape(-1, hx_tensor.shape[-2], hx_tensor.shape[-1])
        cx_tensor = cx_tensor.reshape(-1, cx_tensor.shape[-2], cx_tensor.shape[-1])
        if self.batch_first:
            x = x.transpose(0, 1)
        return x, (hx_tensor, cx_tensor)

    def _get_name(self) -> str:
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other: Any, qconfig: Any = None, split_gates: bool = False) -> Any:
        """The module of a float one, with observers."""
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig") and not qconfig:
            raise AssertionError("other must have qconfig or qconfig must be provided")
        observed: Any = cls(
            other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first,
            other.dropout, other.bidirectional, split_gates=split_gates,
        )  # fmt: skip
        observed.qconfig = getattr(other, "qconfig", qconfig)
        for idx in range(other.num_layers):
            observed.layers[idx] = _LSTMLayer.from_float(
                other, idx, qconfig, batch_first=False, split_gates=split_gates
            )
        if other.training:
            observed.train()
            return torch.ao.quantization.prepare_qat(observed, inplace=True)
        observed.eval()
        return torch.ao.quantization.prepare(observed, inplace=True)

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """Raises NotImplementedError: the quantized module's is meant."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-quantizable LSTM module. Please, see "
            "the examples on quantizable LSTMs."
        )
