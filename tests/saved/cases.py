"""What operators keep for their gradients: which inputs and outputs may be written afterwards.

For each expression: every floating input and output in turn is written in place before the backward
pass, which then raises ("kept") or does not.  tools/record/expressions.py writes down what the real
torch says; whatever is free there must be free here, or valid programs fail.
"""

from __future__ import annotations

import re
import warnings

# How each name that an expression may use is made, from a generator of fixed numbers.
INPUTS = {
    "x": "rand(3, 4)",
    "y": "rand(3, 4)",
    "z": "rand(3, 4)",
    "r": "rand(4)",
    "s": "rand(())",
    "a": "rand(3, 3) + 3 * torch.eye(3)",
    "b": "rand(3, 3)",
    "p": "rand(2, 3, 4)",
    "q": "rand(2, 4, 3)",
    "img": "rand(2, 4, 6, 6)",
    "kernel": "rand(4, 4, 3, 3)",
    "up": "rand(4, 4, 2, 2)",
    "seq": "rand(2, 4, 8)",
    "taps": "rand(4, 4, 3)",
    "vol": "rand(1, 2, 4, 4, 4)",
    "c": "rand(4)",
    "d": "rand(4)",
    "table": "rand(5, 4)",
    "grid": "rand(2, 3, 3, 2)",
    "theta": "rand(2, 2, 3)",
    "heads": "rand(2, 2, 5, 8)",
    "keys": "rand(2, 2, 5, 8)",
    "values": "rand(2, 2, 5, 8)",
    "logits": "rand(6, 5)",
    "big": "rand(6, 5) + 2",
}
CONSTANTS = {
    "mask": "torch.tensor([[True, False, True, True]] * 3)",
    "rows": "torch.tensor([0, 2, 1])",
    "places": "torch.tensor([[0, 1, 2, 0]] * 3)",
    "classes": "torch.tensor([0, 3, 1, 4, 2, 2])",
    "signs": "torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])",
    "steps": "torch.tensor([1, 3, 2])",
}

FAMILIES = {
    "unary": """
        abs acos acosh(x + 1) angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc
        erfinv exp exp2 expm1 floor frac i0 lgamma log log10 log1p log2 logit neg positive rad2deg
        reciprocal round rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc
        nan_to_num special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr
        special.ndtr special.ndtri special.psi special.expit special.logit(x) clone
        """,
    "activations": """
        F.relu F.relu6 F.elu F.selu F.celu F.gelu F.silu F.mish F.hardswish F.hardsigmoid
        F.hardtanh F.leaky_relu F.logsigmoid F.softplus F.softsign F.tanhshrink F.softshrink
        F.hardshrink F.threshold(x,0.5,0.0) F.rrelu F.glu F.prelu(x,c) F.softmax(x,-1)
        F.log_softmax(x,-1) F.softmin(x,-1) F.gelu(x,approximate='tanh') F.normalize(x)
        F.dropout(x,0.5) F.alpha_dropout(x,0.5) F.feature_alpha_dropout(img,0.5,training=True)
        F.dropout2d(img,0.5)
        """,
    "binary": """
        x+y x-y x*y x/y x**2 x**y 2**x x+1 x*2 x/2 1/x x+s x*s x%0.3 x//y torch.add(x,y,alpha=2)
        torch.atan2(x,y) torch.hypot(x,y) torch.maximum(x,y) torch.minimum(x,y) torch.fmax(x,y)
        torch.fmin(x,y) torch.fmod(x,y) torch.remainder(x,y) torch.copysign(x,y)
        torch.ldexp(x,rows[:1]) torch.logaddexp(x,y) torch.logaddexp2(x,y) torch.xlogy(x,y)
        torch.special.xlog1py(x,y) torch.lerp(x,y,0.3) torch.lerp(x,y,z) torch.addcmul(x,y,z)
        torch.addcdiv(x,y,z) torch.where(mask,x,y) torch.clamp(x,0.3,0.6) torch.clamp(x,y,z)
        torch.clamp_min(x,0.5) torch.clamp_max(x,0.5) torch.float_power(x,2.0) torch.polar(x,y)
        torch.complex(x,y) torch.true_divide(x,y) torch.heaviside(x,y) torch.nextafter(x,y)
        torch.rsub(x,y) torch.dist(x,y) torch.cdist(x,y) torch.cosine_similarity(x,y)
        F.pairwise_distance(x,y) torch.div(x,y,rounding_mode='floor') x*mask
        torch.masked_fill(x,mask,0.5) torch.masked_fill(x,mask,s) x.masked_scatter(mask,y)
        """,
    "reductions": """
        x.sum() x.sum(1) x.mean() x.mean(1) x.mean((0,1)) x.prod() x.prod(1) x.max() x.min()
        x.max(1) x.min(1) x.amax(1) x.amin(1) x.aminmax() x.median() x.median(1) x.nanmedian()
        x.mode(1) x.kthvalue(2,1) x.sort(1) x.topk(2) x.logsumexp(1) x.std() x.std(1) x.var()
        x.var(1) torch.std_mean(x,1) torch.var_mean(x) x.norm() x.norm(1) x.norm(3) x.norm(dim=1)
        torch.linalg.vector_norm(x) torch.linalg.vector_norm(x,1)
        torch.linalg.vector_norm(x,float('inf')) torch.linalg.matrix_norm(a) x.cumsum(1)
        x.cumprod(1) x.cummax(1) x.cummin(1) x.logcumsumexp(1) x.nansum() x.nanmean()
        x.quantile(0.3) x.nanquantile(0.3) x.trace() x.diff() x.renorm(2,0,0.5) x.msort()
        x.argsort(1).sum()+x.sum() torch.trapezoid(x) x.count_nonzero()+x.sum()
        """,
    "shapes": """
        x.t()*1 x.reshape(12) x.view(12)*1 x.transpose(0,1)*1 x.permute(1,0)*1 x.expand(2,3,4)
        x.unsqueeze(0) x.squeeze() x.flatten() x.flip(0) x.roll(1,0) x.rot90() x.repeat(2,1)
        x.tile(2) torch.cat([x,y]) torch.stack([x,y]) torch.hstack([x,y]) x.repeat_interleave(2,0)
        x.tril() x.triu() x.diag() r.diag() torch.diag_embed(x) x.diagonal() torch.block_diag(x,y)
        x.narrow(0,0,2) x.select(0,1) x[1] x[:,1:] x[rows] x[rows,1] x[mask] x[:,rows] x[x>0.5]
        x.index_select(0,rows) x.gather(1,places) torch.take(x,rows)
        torch.take_along_dim(x,places,1) x.masked_select(mask) x.scatter(1,places,y)
        x.scatter_add(1,places,y) x.scatter(1,places,0.5) x.index_add(0,rows,y)
        x.index_copy(0,rows,y) x.index_fill(0,rows,0.5) x.index_put((rows,),y) x.put(places,y)
        torch.scatter_reduce(x,1,places,y,'sum') torch.scatter_reduce(x,1,places,y,'amax')
        torch.scatter_reduce(x,1,places,y,'prod') torch.scatter_reduce(x,1,places,y,'mean')
        torch.select_scatter(x,r,0,1) torch.slice_scatter(x,y,0)
        torch.diagonal_scatter(a,b.diagonal()) x.unfold(1,2,1) x.as_strided((2,2),(1,2))
        x.split(2) x.chunk(2,1) x.unbind(0) torch.tensor_split(x,2) torch.meshgrid(r,c)
        torch.cartesian_prod(r,c) torch.combinations(r) F.pad(x,(1,1))
        F.pad(img,(1,1,1,1),mode='reflect') F.pad(img,(1,1,1,1),mode='replicate')
        F.pad(img,(1,1,1,1),mode='circular') x.double() x.half() x.to(torch.float64)
        torch.broadcast_tensors(x,r) F.one_hot(classes).sum()+x.sum() F.pixel_shuffle(img,2)
        F.fold(F.unfold(img,2),6,2) F.unfold(img,2) torch.movedim(p,0,2) torch.kron(x,y)
        torch.vander(r) torch.tril(a)@b
        """,
    "products": """
        x@y.t() p@q a@b a@b[0] r@c x.mm(q[0]) torch.bmm(p,q) torch.dot(r,c) torch.mv(x,r)
        torch.ger(r,c) torch.addmm(a,b,b) torch.addmv(b[0],a,a[0]) torch.addr(a,b[0],b[1])
        torch.baddbmm(p[:,:,:3],p,q) torch.addbmm(a,p,q) F.linear(x,y) F.linear(x,y,s)
        F.linear(x,y,b[0]) F.bilinear(r,c,torch.stack([a,b]).new_ones(2,4,4)*s)
        torch.einsum('ij,kj->ik',x,y) torch.tensordot(x,y) torch.inner(x,y) torch.cross(b,a,dim=1)
        torch.chain_matmul(a,b) torch.linalg.multi_dot([a,b,a]) torch.matrix_power(a,3)
        torch.linalg.inv(a) torch.linalg.det(a) torch.linalg.slogdet(a) torch.linalg.solve(a,b)
        torch.linalg.cholesky(a@a.T) torch.linalg.qr(a) torch.linalg.svd(a) torch.linalg.eigh(a)
        torch.linalg.pinv(a) torch.matrix_exp(a) torch.linalg.lu_factor(a) torch.linalg.lu(a)
        torch.cholesky_solve(b,a) torch.linalg.solve_triangular(a,b,upper=True)
        torch.linalg.svdvals(a) torch.logdet(a) torch.linalg.vecdot(x,y)
        torch.linalg.householder_product(a,b[0]) torch.trapezoid(x,y) torch.fft.fft(x)
        torch.fft.rfft(x) torch.fft.irfft(torch.complex(x,y)) torch.cov(x) torch.corrcoef(x)
        """,
    "layers": """
        F.conv2d(img,kernel) F.conv2d(img,kernel,c) F.conv1d(seq,taps) F.conv_transpose2d(img,up)
        F.max_pool2d(img,2) F.max_pool1d(seq,2) F.max_pool3d(vol,2) F.avg_pool2d(img,2)
        F.avg_pool1d(seq,2) F.avg_pool3d(vol,2) F.adaptive_avg_pool2d(img,2)
        F.adaptive_avg_pool1d(seq,2) F.adaptive_max_pool2d(img,2) F.adaptive_avg_pool2d(img,1)
        F.lp_pool2d(img,2,2) F.max_pool2d(img,2,return_indices=True)
        F.max_unpool2d(*F.max_pool2d(img,2,return_indices=True),2)
        F.interpolate(img,scale_factor=2) F.interpolate(img,scale_factor=2,mode='bilinear')
        F.interpolate(img,size=9,mode='bicubic') F.interpolate(seq,scale_factor=2,mode='linear')
        F.interpolate(vol,scale_factor=2,mode='trilinear') F.interpolate(img,size=3,mode='area')
        F.grid_sample(img,grid,align_corners=False)
        F.affine_grid(theta,(2,1,3,3),align_corners=False) F.layer_norm(x,(4,))
        F.layer_norm(x,(4,),c,d) F.batch_norm(img,None,None,c,d,True)
        F.batch_norm(img,r,torch.ones(4),c,d) F.group_norm(img,2,c,d) F.instance_norm(img)
        F.rms_norm(x,(4,)) F.rms_norm(x,(4,),c) F.local_response_norm(img,2)
        F.embedding(rows,table) F.embedding_bag(rows,table,steps[:1]*0)
        F.embedding(rows,table,padding_idx=0) F.scaled_dot_product_attention(heads,keys,values)
        F.channel_shuffle(img,2) F.fractional_max_pool2d(img,2,output_size=3)
        """,
    "losses": """
        F.cross_entropy(logits,classes) F.cross_entropy(logits,classes,label_smoothing=0.1)
        F.cross_entropy(logits,big.softmax(-1)) F.cross_entropy(logits,classes,reduction='none')
        F.nll_loss(logits,classes) F.nll_loss(F.log_softmax(logits,-1),classes) F.mse_loss(x,y)
        F.l1_loss(x,y) F.smooth_l1_loss(x,y) F.huber_loss(x,y)
        F.binary_cross_entropy(x,y.detach()) F.binary_cross_entropy_with_logits(x,y)
        F.binary_cross_entropy_with_logits(x,y.detach()) F.kl_div(x,y)
        F.kl_div(x,y,log_target=True) F.poisson_nll_loss(x,y.detach()) F.gaussian_nll_loss(x,y,z)
        F.soft_margin_loss(logits[:,0],signs) F.hinge_embedding_loss(logits[:,0],signs)
        F.margin_ranking_loss(logits[:,0],big[:,0],signs) F.multi_margin_loss(logits,classes)
        F.multilabel_soft_margin_loss(x,y.detach()) F.cosine_embedding_loss(logits,big,signs)
        F.triplet_margin_loss(x,y,z) F.multilabel_margin_loss(x,places)
        F.ctc_loss(p.log_softmax(-1).repeat(4,1,1)[:,:2],torch.ones(2,1,dtype=torch.long),steps[:2]*0+8,steps[:2]*0+1)
        F.mse_loss(x,y,reduction='none') F.l1_loss(x,y,reduction='sum') F.mse_loss(x,y.detach())
        """,
    "in place": """
        x.add_(y) x.mul_(y) x.mul_(2) x.div_(y) x.sub_(y) x.pow_(2) x.exp_() x.sigmoid_()
        x.tanh_() x.relu_() x.clamp_(0.3,0.6) x.copy_(y) x.fill_(s) x.zero_()
        x.masked_fill_(mask,0.5) x.sqrt_() x.square_() x.cumsum_(1) x.cumprod_(1) x.logit_()
        x.renorm_(2,0,0.5) x.clamp_min_(0.5) x.clamp_max_(0.5) x.polygamma_(1) x.abs_() x.neg_()
        x.sin_() x.cos_() x.log_() x.reciprocal_() x.rsqrt_() x.lerp_(y,0.3) x.addcmul_(y,z)
        x.addcdiv_(y,z) x.addmm_(b,y) x.index_add_(0,rows,y) x.scatter_(1,places,y)
        x.index_fill_(0,rows,0.1) x.atan2_(y) x.hypot_(y) x.erf_() x.digamma_() x.lgamma_()
        x.tril_() x.triu_() x.remainder_(0.3) x.fmod_(0.3) x.floor_() x.round_() x.frac_()
        x.trunc_() x.sign_() x.expm1_() x.log1p_() x.xlogy_(y) x.index_copy_(0,rows,y)
        x.index_put_((rows,),y) x.masked_scatter_(mask,y) x.nan_to_num_() x.sinc_() x.i0_()
        x.float_power_(2) x.copysign_(y) x.softmax(-1).mul_(y) x.erfinv_() x.acos_() x.asin_()
        x.atan_() F.relu(x,inplace=True) F.silu(x,inplace=True) F.relu6(x,inplace=True)
        F.elu(x,inplace=True) F.selu(x,inplace=True) F.celu(x,inplace=True) F.mish(x,inplace=True)
        F.hardswish(x,inplace=True) F.hardsigmoid(x,inplace=True) F.hardtanh(x,inplace=True)
        F.leaky_relu(x,inplace=True) F.rrelu(x,inplace=True) F.threshold(x,0.5,0.0,inplace=True)
        F.dropout(x,0.5,inplace=True) F.alpha_dropout(x,0.5,inplace=True)
        F.dropout2d(img,0.5,inplace=True) F.feature_alpha_dropout(img,0.5,inplace=True)
        F.normalize(x,out=None)
        """,
}  # fmt: skip


def expressions(family: str) -> list[str]:
    """The expressions of a family; a bare name of "unary" and "activations" is called with x."""
    found = []
    for word in re.findall(r"\S+(?:\s\+\s1\))?", FAMILIES[family]):
        name = word if word.startswith("F.") else f"torch.{word}"
        if family in ("unary", "activations"):
            word = name if "(" in word else f"{name}(x)"
        found.append(word)
    return found


def rand(torch, state: list[int]):
    """Numbers between 0.15 and 0.85 that are the same for every library."""

    def make(*shape):
        size = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        count = 1
        for n in size:
            count *= n
        numbers = []
        for _ in range(count):
            state[0] = (state[0] * 1103515245 + 12345) % 2**31
            numbers.append(0.15 + 0.7 * state[0] / 2**31)
        return torch.tensor(numbers).reshape(size)

    return make


def attempt(torch, expression: str, written: str | None):
    """Runs an expression, writes one tensor in place, runs backward: the names it might write."""
    used = [name for name in INPUTS if re.search(rf"(?<![\w.'=]){name}(?![\w'])", expression)]
    make = rand(torch, [7])
    space = {"torch": torch, "F": torch.nn.functional, "rand": make}
    space |= {name: eval(text, space) for name, text in CONSTANTS.items()}
    torch.manual_seed(0)
    for name in used:
        leaf = eval(INPUTS[name], space).requires_grad_()
        space[name] = leaf * 1
    result = eval(expression, space)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    outs = {
        f"out{i}": t
        for i, t in enumerate(results)
        if isinstance(t, torch.Tensor) and t.requires_grad
        and not any(t is space[name] for name in used)
    }  # fmt: skip
    tensors = {name: space[name] for name in used} | outs
    wanted = [t for t in results if isinstance(t, torch.Tensor) and t.requires_grad]
    total = sum(torch.real(t.sum()) if t.is_complex() else t.sum() for t in wanted)
    if written is not None:
        with torch.no_grad():
            tensors[written].add_(0)
    if wanted:
        total.backward()
    return list(tensors)


def describe(torch, expression: str) -> str:
    """ "x: kept, out0: free"."""
    try:
        names = attempt(torch, expression, None)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    words = []
    for name in names:
        try:
            attempt(torch, expression, name)
            words.append(f"{name}: free")
        except RuntimeError as error:
            kept = "modified by an inplace operation" in str(error)
            words.append(f"{name}: {'kept' if kept else str(error).splitlines()[0]}")
    return ", ".join(words)


def run(torch, family: str):
    """(expression, what is kept) of each expression of a family."""
    for expression in expressions(family):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield expression, describe(torch, expression)
