// The fields of tensors, nodes and operators, for the files of this folder alone.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensor/ndarray.h"
#include "tensor/placing.h"
#include "tensor/tensor.h"

namespace tritorch {

// ---- state --------------------------------------------------------------------------------------

struct Modes {
  bool grad_enabled = true;
  bool inference_mode = false;
  bool saving_hooks = false;   // saved-tensor hooks are installed
  bool tracing_calls = false;  // anomaly mode: nodes keep the stack of their call
};
extern constinit thread_local Modes modes;

// What Python registers, once, for the native half to call or to create.
struct Registered {
  PyObject* size_type;
  PyObject* generic_type;  // of NumPy's scalars
  PyObject* asarray;
  PyObject* refresh_view;    // (view): gives a view its node anew
  PyObject* raise_modified;  // (node, position): a saved tensor was changed
  PyObject* pack_saved;      // (node): applies the saved-tensor hooks
  PyObject* unpack_saved;    // (node) -> saved
  PyObject* annotate_node;   // (node): the stack of its call
  PyObject* integral;        // the dtypes whose tensors have no history
  PyObject* no_grad_view;    // what a view made in no_grad mode notes of itself
  PyObject* inference_view;  // and one made in inference mode
  PyObject* describe;      // (tensor) -> a tuple: what a gradient may know of it without its values
  PyObject* stream_probe;  // (array) -> its stream; unset while all use the default one
  PyObject* dtype_map;     // a backend's dtype -> tritorch.dtype
  PyObject* classed;       // a type of arrays that say what class their tensors are of
  PyObject* dtype_type;    // tritorch.dtype
  PyObject* parameter;     // tritorch.nn.Parameter
  PyObject* cpu_device;    // where ndarrays are
  PyObject* cuda_device;   // (index) -> the device
  PyObject* strided;       // the layout of plain arrays
  PyObject* as_sizes;      // (iterable) -> a tuple of sizes
};
extern Registered registered;

struct Names {
  PyObject *shape, *dtype, *ndim, *tensor_class, *values;
};
extern Names names;

// ---- types --------------------------------------------------------------------------------------

struct Shared {
  PyObject_HEAD PyObject* array;  // spans the storage; None while nobody asked
  PyObject* storage;              // the UntypedStorage, once somebody asked
  PyObject* lent;                 // who has to be asked before a write
  long long version;
  PyObject* weak;
  char fixed;  // the memory is somebody else's: it keeps its size
};

struct Tensor {
  PyObject_HEAD PyObject* array;  // unset for tensors whose every operation takes the slow path
  PyObject* shadow;               // their array
  PyObject* node;                 // what computed this tensor
  PyObject* grad;
  Shared* shared;
  PyObject* base;     // the tensor that this one is a view of
  PyObject* view;     // how: (operator, params, the view of the view's source)
  PyObject* created;  // of a view whose writes autograd cannot follow: why
  PyObject* tangent;
  PyObject* hooks;
  long long epoch;  // of a view: the version of its memory that its node belongs to
  int output;       // which of node's outputs
  char leaf;        // a leaf that requires grad
  char inference;   // 2: made of an inference tensor outside of the mode, counts its own versions
  char retains_grad;
  unsigned long long mark;    // of a region: its number and that of the tensor in it
  unsigned long long serial;  // among the tensors that were asked for it; 0: it was not
};

constexpr int kInputs = 16;  // beyond, an operator saves everything

struct Operator {
  PyObject_HEAD PyObject* node_type;
  // What the gradient of input i needs; bit j of entry i:
  unsigned saves[kInputs];      // input j
  unsigned shapes[kInputs];     // the shape of input j, or all that describe() says of it
  unsigned saves_out[kInputs];  // output j
  unsigned lends;               // bit j: input j, and bit 31: the output, is saved until written
  unsigned keeps;               // bit j: input j must not be written, though it is not saved
  char differentiable;
  char describes;      // whether not the shapes are kept, but what describe() says
  char keeps_numbers;  // a number among operands is saved, so a second pass is one too many
  Placing placing;
  unsigned deciding;       // bit j: input j has a say in the result's memory format
  char masks;              // so many inputs at the start are not cast
  char is_view, variadic;  // the result is a view; the last input stands for all from there on
  unsigned apart;          // bit j: input j, where it is a number, is no operand
  unsigned profiled;       // the number of its name in profiles plus one, or kUnnamed; 0: not asked
};

struct Node {
  PyObject_HEAD PyObject* op;
  PyObject* edges;       // for each input: a Node, a leaf Tensor, or None
  PyObject* outputs;     // which output of each edge's node; None when all are the first
  PyObject* saved;       // for each input: it, its shape or None, as the gradient needs
  PyObject* out;         // the output's array (or arrays, or None), when the gradient needs it
  PyObject* out_shared;  // the same outputs' Shared
  PyObject* params;      // the operator's other arguments
  PyObject* versions;    // of what is saved, when any is not 0
  PyObject* kept;        // (input, its Shared, version, shape, dtype) of what must not be written
  PyObject* shape;       // of the output; a tuple of shapes for several
  PyObject* dtype;
  PyObject* hooks;  // Python's business: hooks, metadata
  PyObject* call;   // of a function of several records: (function, args, kwargs); False once freed
  PyObject* stream;
  unsigned long long sequence;
  unsigned long long mark;  // of the last walk over the graph that came here
  long long out_version;    // of the output, when it was saved; of several, they are 0
  unsigned long flows;      // bit i: gradients flow through output i, of several
  unsigned numbers;         // bit i: input i is a number
  unsigned absent;          // bit i: input i is None
  int n_outputs;            // 0: one, not in a tuple
  char freed;
  char packed;
  char keeps_numbers;  // the operator's
  char divided;        // whether not all edges are those of each output (`edges_of`, `edges_from`)
};

// Gives a new node its sequence number: after those of deferred calls, which were made before.
// False with a Python error set on failure.
bool number(Node* n);
std::uint64_t next_sequence();  // what the next node gets

// reserve_sequence_numbers(count): later nodes leave that many numbers free after those there are.
PyObject* reserve_sequence_numbers(PyObject*, PyObject* count);

extern PyTypeObject *shared_type, *tensor_base_type, *node_base_type, *operator_base_type;
extern PyType_Spec shared_spec, tensor_spec, node_spec, operator_spec;

// What the collector of cycles does with objects of type T, whose fields own references.
template <class T, auto... fields>
struct Collected {
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    auto* object = reinterpret_cast<T*>(self);
    int found = visit(reinterpret_cast<PyObject*>(Py_TYPE(self)), arg);
    const auto look = [&](auto* field) {
      if (!found && field) found = visit(reinterpret_cast<PyObject*>(field), arg);
    };
    (look(object->*fields), ...);
    return found;
  }
  static int clear(PyObject* self) {
    auto* object = reinterpret_cast<T*>(self);
    const auto drop = [](auto*& field) {
      Py_XDECREF(reinterpret_cast<PyObject*>(std::exchange(field, nullptr)));
    };
    (drop(object->*fields), ...);
    return 0;
  }
  static void dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    // A chain of nodes must not be a chain of C frames.
    Py_TRASHCAN_BEGIN(self, dealloc);
    clear(self);
    type->tp_free(self);
    Py_DECREF(type);
    Py_TRASHCAN_END;
  }
};

#define TRITORCH_FASTCALL(f) \
  reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL

// ---- tensors ------------------------------------------------------------------------------------

inline Tensor* as_tensor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == tensor_type || PyType_IsSubtype(type, tensor_base_type)
             ? reinterpret_cast<Tensor*>(object)
             : nullptr;
}

// Python clears fields by assigning None.
inline bool is_set(const PyObject* field) { return field && field != Py_None; }

inline PyObject* array_of(const Tensor* t) { return t->array ? t->array : t->shadow; }

// The ndarray of a tensor whose class hides none; null for any other.  Classes that are asked about
// operators hide it, and all do while somebody is told of them: Note [Watching] in
// tritorch/core/dispatching.py.
NDArray* plain_array(Tensor* tensor);

// True if the tensor is deferred, its call not computed yet: src/compilation/region.h.
extern PyTypeObject* deferred_type;
inline bool is_deferred(const Tensor* t) {
  return !t->array && t->shadow && Py_TYPE(t->shadow) == deferred_type;
}
bool force(Tensor* t);          // computes it; false with a Python error set
bool is_lost(const Tensor* t);  // it was deferred, and what was to compute it has failed
int deferred_needs_grad(const Tensor* t);
bool deferred_is_leaf(const Tensor* t);
void forget(Tensor* t);            // a marked tensor goes
bool set_modes_asked(bool asked);  // whether function modes are; gives what it was

// Whether gradients flow to t.  A view whose memory was written since it was made, or since it was
// last asked, first learns its history anew.
// -1: a Python error is set.
int requires_grad(Tensor* t);
// The attribute `requires_grad`: as above, but a view that may not be asked for its history since
// it was made without gradients (`created`) wants gradients if its base does.
int wants_grad(Tensor* t);

// New references, as the properties give them: a Size; the dtype; whether gradients flow to it.
PyObject* size_of(std::span<const std::int64_t> shape);
PyObject* dtype_of_tensor(PyObject* tensor);
PyObject* requires_grad_of_tensor(PyObject* tensor);

// A tensor of an array, without history.  exact: a view, whose strides are meant.
Tensor* new_tensor(PyObject* array, bool exact = false);

// What tells a tensor from any other that is or was, as its address does not.
unsigned long long serial_of(Tensor* tensor);

Shared* new_shared(PyObject* array);

// ---- recorded calls -----------------------------------------------------------------------------

// What is known of a call before it is recorded: which inputs want a gradient.
struct Wanted {
  bool any = false;
  unsigned saves = 0;
  unsigned shapes = 0;
  unsigned saves_out = 0;
};

bool find_wanted(const Operator* op, PyObject* const* inputs, Py_ssize_t n, Wanted* wanted);

// The node of a call: edges and saved inputs.  Not yet its outputs.
Node* new_node(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
               const Wanted& wanted);

// Whether gradients flow to an array of this dtype: false for integers and bool; -1 on an error.
int has_gradients(PyObject* array);

// What only some nodes need, once the outputs are known.  Returns false on an error.
bool complete_node(Node* node, PyObject* array);

// Tensors of the arrays that a record's call gives, and its node if one is wanted: of one array (a
// view's strides are meant), of a view of `input`, of several arrays or None.
PyObject* make_one(Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                   PyObject* params, bool is_view);
PyObject* make_view(Operator* op, PyObject* array, PyObject* params, PyObject* input);
PyObject* make_many(Operator* op, PyObject* arrays, unsigned long mask, PyObject* params,
                    PyObject* const* inputs, Py_ssize_t n);

// The same of arrays that lie as the record's function has put them.  computed: the dtype that
// operands were cast to, or null.
PyObject* finish_one(Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                     PyObject* params, PyObject* computed);
PyObject* finish_many(Operator* op, PyObject* arrays, unsigned long mask, PyObject* params,
                      PyObject* const* inputs, Py_ssize_t n);

// A tensor of an array in the memory of another, without history.
PyObject* make_alias(Tensor* input, PyObject* array);

bool attach(Tensor* out, Node* node);
bool save_output(Tensor* out, Node* node);
// The same of several outputs, of which those in `wanted` are needed.
bool save_outputs(PyObject* outs, unsigned wanted, Node* node);

// The version of a tensor's memory; 0 for anything else.
long long version_of(PyObject* object);

// A record's result, whose operands were cast to a dtype, as a tensor: placed and recorded.
PyObject* finish_computed(Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                          PyObject* computed);

// Adds the functions on tensors to the module.  False with a Python error set on failure.
bool add_tensor_functions(PyObject* module);

// The number of the backward pass that began last, in any thread.
extern long latest_pass;

// The same with the function that gives leaves their gradients.
bool add_arriving(PyObject* module);

// The same with SizeBase, the tuple of sizes.
bool add_size_type(PyObject* module);

}  // namespace tritorch
