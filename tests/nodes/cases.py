"""What the node of an expression is called and says of what it keeps, beside PyTorch.

The expressions of tests/saved, and the families below, with the same inputs.  What is written down
(tools/record/expressions.py nodes) is for each result the name of its `grad_fn`, of its type, and
each of its `_saved_` attributes: a number or word as it prints, a tensor by shape, dtype and sum.
"""

from __future__ import annotations

import re
import warnings

from tests.saved import cases as saved
from tests.saved.cases import CONSTANTS, INPUTS

MORE = {
    "more shapes": """
        x.T x.mT x.H x.swapaxes(0,1) x.moveaxis(0,1) x.view_as(y) x.reshape_as(y) x.expand_as(y)
        x.unflatten(1,(2,2)) x.ravel() x.squeeze(0) x[None] x[0,1] x[...,0] x[:,::2] x[rows,:,None]
        x[0:2] x[:] x[0:2,1:3] x[rows][:,rows] x[mask[0:1].expand(3,4)] x.split([1,2]) x.split(1,1)
        torch.unsafe_split(x,2) torch.unsafe_chunk(x,2) torch.vsplit(x,3) torch.hsplit(x,2)
        torch.dsplit(p,2) x.unbind(1) x.unsafe_chunk(2) x.fliplr() x.flipud() x.roll((1,1),(0,1))
        x.roll(1) x.contiguous() p.contiguous() x.clone() x.detach().requires_grad_()*1 x.float()
        x.type(torch.float64) x.type_as(x.double()) x.to('cpu') x.to(torch.float16) x.bfloat16()
        x.view(-1) x.view(2,6) x.flatten(0) p.flatten(1) p.squeeze((0,1)) x.T.contiguous()
        torch.vstack([x,y]) torch.dstack([x,y]) torch.column_stack([x,y]) torch.row_stack([x,y])
        torch.concat([x,y]) torch.concatenate([x,y],1) torch.atleast_1d(s) torch.atleast_2d(r)
        torch.atleast_3d(x) x.broadcast_to((2,3,4)) torch.broadcast_to(x,(2,3,4)) x.diagonal(1)
        torch.linalg.diagonal(x) torch.diagflat(r) x.repeat_interleave(2)
        x.repeat_interleave(steps,0) torch.repeat_interleave(x,2,dim=1) x.index_put((rows,),y,True)
        x.take(rows) torch.gather(x,0,places) x.scatter(1,places,y,reduce='add')
        x.scatter(1,places,0.5,reduce='multiply') x.scatter_reduce(1,places,y,'amin')
        x.index_reduce(0,rows,y,'mean') x.index_add(0,rows,y,alpha=2) x.masked_fill(mask,s)
        x.where(mask,y) torch.where(mask,x,0.5) torch.where(mask,s,x) x.resolve_conj()
        x.resolve_neg() x.real torch.complex(x,y).real torch.complex(x,y).imag
        torch.complex(x,y).conj() torch.view_as_real(torch.complex(x,y))
        torch.view_as_complex(torch.stack([x,y],-1)) torch.real(x) torch.complex(x,y).angle()
        torch.complex(x,y).abs() torch.complex(x,y).conj_physical() torch.complex(x,y)*x
        torch.complex(x,y).sum() F.pixel_unshuffle(img,2) img.to(memory_format=torch.channels_last)
        torch.adjoint(x) x.data.requires_grad_()+1 torch.alias_copy(x)
        torch.as_strided_copy(x,(2,2),(1,2)) torch.expand_copy(x,(2,3,4))
        torch.permute_copy(x,(1,0)) torch.select_copy(x,0,0) torch.slice_copy(x,0,0,2)
        torch.squeeze_copy(x) torch.t_copy(x) torch.transpose_copy(x,0,1) torch.unbind_copy(x)
        torch.unsqueeze_copy(x,0) torch.view_copy(x,(4,3)) torch.unfold_copy(x,1,2,1)
        torch.diagonal_copy(x) torch.split_copy(x,2) torch.detach_copy(x).requires_grad_()*1
        torch.narrow_copy(x,0,0,2) torch.constant_pad_nd(x,(1,1),0.5) F.pad(x,(1,1),value=2.0)
        F.pad(x,(-1,1)) F.pad(seq,(1,1),mode='reflect') F.pad(seq,(1,1),mode='replicate')
        F.pad(seq,(1,1),mode='circular') F.pad(vol,(1,1,1,1,1,1),mode='replicate')
        F.pad(vol,(1,1,1,1,1,1),mode='reflect') x.expand(-1,-1) x.unfold(0,2,1) torch.tril(x,1)
        torch.triu(x,-1) x.sum_to_size(1,4) x.sum_to_size(3,4)
        torch.nn.utils.parameters_to_vector([x,y]) torch.nn.utils.rnn.pad_sequence([x,y])
        """,
    "more pointwise": """
        torch.absolute(x) torch.arccos(x) torch.arccosh(x+1) torch.arcsin(x) torch.arcsinh(x)
        torch.arctan(x) torch.arctanh(x) torch.arctan2(x,y) torch.multiply(x,y) torch.subtract(x,y)
        torch.divide(x,y) torch.negative(x) torch.fix(x) torch.clip(x,0.3,0.6)
        torch.clamp(x,min=0.3) torch.clamp(x,max=0.5) torch.clamp(x,y) torch.square(x) -x +x abs(x)
        x-1 1-x 2-x 2*x x//0.3 0.3//x x%y 0.5%x 0.5**x x**0.5 x**s s**x x.pow(0) x.pow(1) x.pow(3)
        s*x x+2j x*2j x/2j torch.mul(x,2) torch.add(x,1,alpha=2) torch.sub(x,y,alpha=2)
        torch.sub(x,1) torch.div(x,2) torch.div(x,y,rounding_mode='trunc')
        torch.div(x,2,rounding_mode='floor') torch.floor_divide(x,y) torch.fmod(x,0.3)
        torch.remainder(x,0.3) torch.remainder(0.5,x) torch.xlogy(x,2) torch.xlogy(2,x)
        torch.special.xlog1py(x,2) torch.special.xlog1py(2,x) torch.special.zeta(x+1,y+1)
        torch.special.zeta(2,y) torch.polygamma(1,x) torch.mvlgamma(x+3,2)
        torch.igamma(y.detach(),x) torch.igammac(y.detach(),x) torch.special.multigammaln(x+3,2)
        torch.special.gammaln(x) torch.special.digamma(x) torch.special.erf(x)
        torch.special.erfinv(x) torch.special.exp2(x) torch.special.expm1(x) torch.special.log1p(x)
        torch.special.i0(x) torch.special.sinc(x) torch.special.round(x)
        torch.special.log_softmax(x,-1) torch.special.softmax(x,-1) torch.special.logsumexp(x,1)
        torch.special.polygamma(1,x) torch.round(x,decimals=1) torch.nan_to_num(x,0.5)
        torch.logit(x,0.1) torch.frexp(x) torch.max(x,y) torch.min(x,y) torch.lerp(x,y,s)
        torch.addcmul(x,y,z,value=2) torch.addcdiv(x,y,z,value=2) torch.copysign(x,-1)
        torch.hypot(x,x) torch.ldexp(x,y) torch.rsub(x,1) torch.heaviside(x,y) torch.bernoulli(x)
        torch.normal(x,y) torch.normal(x,1.0) torch.normal(0.0,y) torch.poisson(x)
        torch.dropout(x,0.5,True) torch.softmax(x,1) torch.log_softmax(x,1) torch.relu(x)
        torch.selu(x) torch.celu(x) torch.prelu(x,c) torch.rrelu(x) torch.threshold(x,0.5,0.0)
        torch.sigmoid(x) torch.tanh(x) torch.gcd(places,places).sum()+x torch.logical_not(x).sum()+x
        torch.positive(x) torch.fake_quantize_per_tensor_affine(x,0.1,0,0,255)
        torch.fake_quantize_per_channel_affine(x,r.detach(),steps.new_zeros(4).int(),1,0,255)
        x.mul(y).mul(0.5) x.float_power(2) x.float_power(y) torch.float_power(2,x) F.relu6(x)
        F.elu(x,0.5) F.celu(x,0.5) F.leaky_relu(x,0.2) F.hardtanh(x,0.2,0.5) F.softplus(x,2,10)
        F.logsigmoid(x) F.softsign(x) F.tanhshrink(x) F.gumbel_softmax(x) F.rrelu(x,training=True)
        F.dropout(x,0.5,training=False) F.dropout(x,0.0) F.dropout(x,1.0) F.glu(x,0)
        F.hardshrink(x,0.2) F.softshrink(x,0.2) F.threshold(x,0.3,1.0) F.dropout1d(seq)
        F.dropout3d(vol) F.feature_alpha_dropout(img,0.5) F.alpha_dropout(x,0.5,True)
        F.normalize(x,1.0) F.cosine_similarity(x,y) F.pairwise_distance(x,y,1.0) F.pdist(x)
        torch.cdist(x,y,1.0) torch.pdist(x) torch.dist(x,y,1) torch.clone(x) torch.ops.aten.alias(x)
        torch.native_dropout(x,0.5,True) torch.cumulative_trapezoid(x)
        """,
    "more reductions": """
        x.sum(dtype=torch.float64) x.sum((0,1)) x.sum(1,keepdim=True) x.mean(1,keepdim=True)
        x.mean(dtype=torch.float64) x.prod(1,keepdim=True) x.prod(dtype=torch.float64) x.amax()
        x.amin() x.amax((0,1)) x.aminmax(dim=1) x.std(unbiased=False) x.var(unbiased=False)
        x.std((0,1)) x.var(1,unbiased=False) torch.std_mean(x) torch.var_mean(x,1)
        x.var(correction=0) x.norm(2) x.norm(float('inf')) x.norm(0) x.norm('fro') x.norm(2,1)
        x.norm(2,(0,1)) torch.norm(x) torch.linalg.norm(x) torch.linalg.norm(x,dim=1)
        torch.linalg.matrix_norm(a,'nuc') torch.linalg.norm(a,2) torch.linalg.matrix_norm(a,1)
        torch.frobenius_norm(x,1) torch.nuclear_norm(a) torch.nansum(x,1) torch.nanmean(x,1)
        torch.nanmedian(x,1) x.median(1,keepdim=True) x.logsumexp((0,1))
        x.cumsum(0,dtype=torch.float64) x.cumprod(0) torch.logcumsumexp(x,0) x.sort()
        x.sort(descending=True) x.sort(stable=True) x.topk(2,0) x.kthvalue(1) x.mode()
        x.quantile(0.5,1) x.nanquantile(0.5,1) torch.trace(a) torch.cummax(x,0) x.renorm(1,0,0.5)
        torch.gradient(r) torch.diff(x,2) torch.diff(x,dim=0) torch.trapz(x)
        torch.segment_reduce(x,'sum',lengths=steps[:1]*3,axis=0,unsafe=True) x.softmax(0)
        x.softmax(0,dtype=torch.float64) x.log_softmax(0) x.corrcoef() x.cov() x.histc(3).sum()+x
        torch.masked.sum(x,1,mask=mask) x.unique().sum() torch.special.entr(x).sum()
        torch.linalg.vector_norm(x,3) torch.linalg.vector_norm(x,0) torch.linalg.vector_norm(x,2,1)
        x.logsumexp(0,keepdim=True) x.max(0,keepdim=True) x.any().float()+x.sum()
        torch.count_nonzero(x)+x.sum() x.argmax()+x.sum() x.square().sum().sqrt()
        """,
    "more products": """
        torch.matmul(x,y.t()) torch.matmul(p,q) torch.matmul(x,r) torch.matmul(r,c)
        torch.matmul(r,q[0]) torch.matmul(p,r) torch.matmul(p,q[0]) torch.outer(r,c) r.outer(c)
        torch.vdot(r,c) torch.inner(r,c) torch.inner(r,s) torch.addmm(r[:3],a,b)
        torch.addmm(a,b,b,beta=2,alpha=3) torch.addmv(s,a,a[0]) torch.baddbmm(p[:1,:,:3],p,q)
        torch.mm(a,b) torch.mv(a,b[0]) torch.dot(a[0],b[0]) torch.einsum('ij,jk->ik',a,b)
        torch.einsum('bij,bjk->bik',p,q) torch.einsum('ij->ji',x) torch.einsum('ii->i',a)
        torch.einsum('i,j->ij',r,c) torch.tensordot(a,b,1) torch.tensordot(p,q,([2],[1]))
        torch.linalg.multi_dot([a,b,a,b]) torch.linalg.matmul(a,b) torch.matrix_power(a,2)
        torch.matrix_power(a,-1) torch.matrix_power(a,0)+a torch.linalg.matrix_power(a,3)
        torch.inverse(a) a.inverse() a.det() a.logdet() a.slogdet() torch.pinverse(a)
        torch.linalg.pinv(a,hermitian=True) torch.linalg.inv_ex(a) torch.linalg.solve_ex(a,b)
        torch.linalg.cholesky_ex(a@a.T) torch.cholesky(a@a.T) torch.cholesky_inverse(a)
        torch.linalg.eigvalsh(a) torch.linalg.eig(a) torch.linalg.eigvals(a) torch.svd(a)
        torch.qr(a) torch.lu(a) torch.lu_solve(b,*torch.linalg.lu_factor(a))
        torch.lu_unpack(*torch.linalg.lu_factor(a)) torch.triangular_solve(b,a)
        torch.linalg.lstsq(a,b) torch.linalg.ldl_factor(a@a.T) torch.linalg.tensorinv(a,1)
        torch.linalg.tensorsolve(a,b[0]) torch.linalg.cross(a,b) torch.cross(a,b)
        torch.linalg.vander(r) torch.linalg.cond(a)
        torch.linalg.lu_solve(*torch.linalg.lu_factor(a),b) torch.orgqr(a,b[0])
        torch.ormqr(a,b[0],b) torch.linalg.matrix_exp(a) torch.linalg.vecdot(r,c)
        torch.bilinear(x,y,torch.ones(2,4,4)*s,None) F.bilinear(x,y,p[:,:1].expand(2,4,4),r[:2])
        F.linear(p,x) F.linear(p,x,r[:3]) F.linear(r,x) F.linear(x,r) torch.fft.ifft(x)
        torch.fft.fft2(x) torch.fft.ifft2(x) torch.fft.fftn(x) torch.fft.ifftn(x) torch.fft.rfft2(x)
        torch.fft.irfft2(torch.complex(x,y)) torch.fft.rfftn(x) torch.fft.irfftn(torch.complex(x,y))
        torch.fft.hfft(x) torch.fft.ihfft(x) torch.fft.hfft2(x) torch.fft.fftshift(x)
        torch.fft.ifftshift(x) torch.fft.fft(x,norm='ortho')
        torch.stft(r,4,return_complex=True,window=torch.ones(4))
        torch.istft(torch.stft(r,4,return_complex=True,window=torch.ones(4)),4,window=torch.ones(4))
        torch.sparse.mm(a.detach().to_sparse(),b) torch.chain_matmul(a,b,a)
        torch._foreach_add([x,y],1) torch._foreach_mul([x],[y]) torch._foreach_sqrt([x,y])
        torch._foreach_norm([x,y]) torch.linalg.householder_product(a,b[0])
        """,
    "more layers": """
        F.conv1d(seq,taps,c) F.conv1d(seq,taps,padding='same')
        F.conv2d(img,kernel,padding=1,stride=2) F.conv2d(img,kernel[:,:1],groups=4)
        F.conv3d(vol,vol[:,:,:2,:2,:2]) F.conv_transpose1d(seq,taps)
        F.conv_transpose3d(vol,vol.transpose(0,1))
        torch.convolution(img,kernel,c,[1,1],[0,0],[1,1],False,[0,0],1) torch.conv2d(img,kernel)
        F.conv_tbc(seq.permute(2,0,1),taps.permute(2,1,0),c) F.max_pool2d(img,3,2,1)
        F.max_pool1d(seq,2,return_indices=True) F.max_pool3d(vol,2,return_indices=True)
        F.avg_pool2d(img,3,1,1) F.adaptive_avg_pool3d(vol,2) F.adaptive_avg_pool3d(vol,1)
        F.adaptive_max_pool1d(seq,2) F.adaptive_max_pool3d(vol,2) F.adaptive_avg_pool1d(seq,1)
        F.lp_pool1d(seq,2,2) F.lp_pool3d(vol,2,2) F.fractional_max_pool3d(vol,2,output_size=2)
        F.max_unpool1d(*F.max_pool1d(seq,2,return_indices=True),2)
        F.max_unpool3d(*F.max_pool3d(vol,2,return_indices=True),2) F.interpolate(seq,scale_factor=2)
        F.interpolate(vol,scale_factor=2) F.interpolate(img,scale_factor=2,mode='nearest-exact')
        F.interpolate(img,size=3,mode='bilinear',antialias=True)
        F.interpolate(img,size=3,mode='bicubic',antialias=True)
        F.interpolate(seq,size=3,mode='area') F.interpolate(vol,size=2,mode='area')
        F.interpolate(img,size=3,mode='bilinear',align_corners=True) F.upsample(img,scale_factor=2)
        F.grid_sample(img,grid,mode='nearest',align_corners=True)
        F.grid_sample(img,grid,mode='bicubic',align_corners=True)
        F.grid_sample(vol,grid.new_zeros(1,2,2,2,3)*s,align_corners=True)
        F.affine_grid(torch.ones(1,3,4)*s,(1,1,2,2,2),align_corners=False) F.layer_norm(x,(3,4))
        F.layer_norm(x,(4,),c) F.batch_norm(seq,None,None,None,None,True)
        F.batch_norm(x,r.detach(),d.detach(),c,d) F.instance_norm(img,None,None,c,d)
        F.group_norm(img,2) F.local_response_norm(seq,2) F.rms_norm(x,(4,),c,1e-5)
        F.embedding(rows,table,max_norm=None,scale_grad_by_freq=True)
        F.embedding(rows,table,sparse=True) F.embedding_bag(rows[None],table)
        F.embedding_bag(rows[None],table,mode='sum') F.embedding_bag(rows[None],table,mode='max')
        F.scaled_dot_product_attention(heads,keys,values,is_causal=True)
        F.scaled_dot_product_attention(heads,keys,values,torch.ones(5,5,dtype=torch.bool))
        F.scaled_dot_product_attention(heads.double(),keys.double(),values.double())
        F.fold(p.transpose(1,2)[:,:,:3],(2,3),(1,2)) F.unfold(img,3,padding=1)
        torch.native_layer_norm(x,(4,),c,d,1e-5) torch.native_group_norm(img,c,d,2,4,36,2,1e-5)
        torch.native_batch_norm(img,c,d,None,None,True,0.1,1e-5)
        torch.batch_norm(img,c,d,None,None,True,0.1,1e-5,False) torch.group_norm(img,2)
        torch.layer_norm(x,(4,)) torch.pixel_shuffle(img,2) torch.channel_shuffle(img,2)
        torch.nn.RNN(4,4,batch_first=True)(p) torch.nn.LSTM(4,4)(p) torch.nn.GRU(4,4)(p)
        torch.nn.RNNCell(4,4)(x) torch.nn.LSTMCell(4,4)(x) torch.nn.GRUCell(4,4)(x)
        torch.nn.MultiheadAttention(4,2)(p,p,p) torch.nn.Linear(4,2)(x) torch.nn.Conv2d(4,2,3)(img)
        torch.nn.BatchNorm2d(4)(img) torch.nn.LayerNorm(4)(x)
        torch.nn.TransformerEncoderLayer(4,2,8)(p) torch.nn.Bilinear(4,4,2)(x,y)
        torch.nn.Embedding(5,4)(rows) torch.nn.PReLU()(x) torch.nn.Flatten()(p)
        torch.nn.Identity()(x+1) torch.nn.Softmax2d()(img) torch.nn.ZeroPad2d(1)(img)
        torch.nn.ReflectionPad1d(1)(seq) torch.nn.CircularPad2d(1)(img)
        torch.nn.Unflatten(1,(2,2))(x) torch.nn.UpsamplingBilinear2d(scale_factor=2)(img)
        torch.nn.AdaptiveLogSoftmaxWithLoss(5,6,[2])(logits,classes)
        torch.nn.CosineSimilarity()(x,y) torch.nn.ConstantPad1d(1,0.5)(seq)
        """,
    "more losses": """
        F.nll_loss(img,places.new_zeros(2,6,6)) F.cross_entropy(img,places.new_zeros(2,6,6))
        F.cross_entropy(logits,classes,reduction='sum')
        F.cross_entropy(logits,classes,weight=torch.ones(5)) F.cross_entropy(logits[0],classes[0])
        F.nll_loss(logits,classes,reduction='none') F.mse_loss(x,y,reduction='sum')
        F.mse_loss(x,y,weight=torch.ones(3,4)) F.l1_loss(x,y,reduction='none')
        F.smooth_l1_loss(x,y,beta=0.0) F.smooth_l1_loss(x,y,reduction='none')
        F.huber_loss(x,y,reduction='sum',delta=0.5)
        F.binary_cross_entropy(x,y.detach(),reduction='none') F.binary_cross_entropy(x,y)
        F.binary_cross_entropy_with_logits(x,y,reduction='none')
        F.binary_cross_entropy_with_logits(x,y,pos_weight=torch.ones(4))
        F.binary_cross_entropy_with_logits(x,y,weight=torch.ones(4))
        F.kl_div(x,y,reduction='batchmean') F.kl_div(x,y,reduction='none')
        F.poisson_nll_loss(x,y,full=True) F.poisson_nll_loss(x,y,log_input=False)
        F.gaussian_nll_loss(x,y,z,full=True) F.soft_margin_loss(logits[:,0],signs,reduction='none')
        F.hinge_embedding_loss(logits[:,0],signs,reduction='sum')
        F.margin_ranking_loss(logits[:,0],big[:,0],signs,reduction='none')
        F.multi_margin_loss(logits,classes,p=2) F.multi_margin_loss(logits,classes,reduction='none')
        F.multilabel_margin_loss(x,places,reduction='none')
        F.multilabel_soft_margin_loss(x,y.detach(),reduction='sum')
        F.cosine_embedding_loss(logits,big,signs,reduction='none')
        F.triplet_margin_loss(x,y,z,swap=True) F.triplet_margin_with_distance_loss(x,y,z)
        F.ctc_loss(p.log_softmax(-1).repeat(4,1,1)[:,:2],torch.ones(2,1,dtype=torch.long),steps[:2]*0+8,steps[:2]*0+1,reduction='none')
        torch.nn.MSELoss()(x,y) torch.nn.L1Loss()(x,y) torch.nn.NLLLoss()(logits,classes)
        torch.nn.KLDivLoss()(x,y) torch.nn.BCELoss()(x,y)
        torch.nn.CrossEntropyLoss()(logits,classes)
        """,
    "more in place": """
        x.add_(1) x.sub_(1) x.mul_(s) x.div_(2) x.pow_(y) x.clamp_(y) x.clamp_(min=0.3) x.acosh_()
        x.asinh_() x.atanh_() x.sinh_() x.cosh_() x.tan_() x.exp2_() x.log2_() x.log10_() x.erfc_()
        x.ceil_() x.positive() x.logaddexp(y) x.squeeze_() x.unsqueeze_(0) x.t_() x.transpose_(0,1)
        x.swapaxes_(0,1) x.as_strided_((2,2),(1,2)) x.resize_as_(y) x.uniform_() x.normal_()
        x.bernoulli_() x.exponential_() x.random_() x.geometric_(0.5) x.cauchy_() x.log_normal_()
        x.bernoulli_(0.5) x.fill_(0.5) x.fill_diagonal_(0.5) x.masked_fill_(mask,s)
        x.index_put_((rows,),s) x.put_(places,y) x.scatter_(1,places,0.5) x.scatter_add_(1,places,y)
        x.scatter_reduce_(1,places,y,'sum') x.index_reduce_(0,rows,y,'amax') a.addmm_(b,b)
        a[0].clone().addmv_(a,b[0]) a.addr_(b[0],b[1]) p[:,:,:3].clone().baddbmm_(p,q) x.lerp_(y,z)
        x.true_divide_(y) x.floor_divide_(y) x.multiply_(y) x.negative_() x.absolute_()
        x.clip_(0.3,0.6) x.fix_() x.mvlgamma_(1) x.sgn_() x.arctan2_(y) x.deg2rad_() x.rad2deg_()
        x.cumsum_(0) x.logit_(0.1) x.ldexp_(steps[:1]) x.requires_grad_() x.detach().copy_(y)
        x.copy_(r) x.copy_(y.double()) torch.relu_(x) torch.selu_(x) torch.celu_(x)
        torch.threshold_(x,0.5,0.0) F.elu_(x) F.leaky_relu_(x) F.hardtanh_(x) F.relu_(x)
        torch.rrelu_(x) torch.dropout_(x,0.5,True) torch.sigmoid_(x) torch.tanh_(x) torch.square_(x)
        F.threshold_(x,0.5,0.0) x.exp_().add_(1) x.mul_(y).relu_() setitem(x,0,1.0)
        setitem(x,rows,y) setitem(x,slice(0,1),r) setitem(x,mask,0.5) setitem(x,(0,1),s)
        x[0].mul_(2) x[0].add_(r) x.view(12).mul_(2) x.diagonal().add_(1) x.t().exp_()
        """,
}  # fmt: skip
FAMILIES = {**saved.FAMILIES, **MORE}


def expressions(family: str) -> list[str]:
    """The expressions of a family."""
    return saved.expressions(family) if family in saved.FAMILIES else MORE[family].split()


def _setitem(tensor, place, value):
    tensor[place] = value
    return tensor


def evaluate(torch, expression: str):
    """The tensors with a history that an expression gives."""
    used = [name for name in INPUTS if re.search(rf"(?<![\w.'=]){name}(?![\w'])", expression)]
    space = {"torch": torch, "F": torch.nn.functional, "rand": saved.rand(torch, [7])}
    space |= {name: eval(text, space) for name, text in CONSTANTS.items()}
    torch.manual_seed(0)
    for name in used:
        space[name] = eval(INPUTS[name], space).requires_grad_() * 1
    result = eval(expression, space | {"setitem": _setitem})
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    return [t for t in results if isinstance(t, torch.Tensor) and t.grad_fn is not None]


def shown(torch, value) -> str:
    """What is saved, in a line that does not depend on the last digits."""
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).rpartition(".")[2]
        if value.layout is not torch.strided or value.device.type == "meta":
            return f"{list(value.shape)} {kind}"
        total = torch.view_as_real(value.detach()) if value.is_complex() else value.detach()
        return f"{list(value.shape)} {kind} {float(total.double().nan_to_num().sum()):.3g}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(shown(torch, each) for each in value)})"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("tritorch.", "torch.")


def attribute(torch, node, name: str) -> str:
    """A saved attribute as `shown`, or the error of reading it."""
    try:
        return shown(torch, getattr(node, name))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def describe(torch, expression: str):
    """[[name, type's name, {attribute: shown}], ...] of the results."""
    try:
        found = evaluate(torch, expression)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    described = []
    for node in (tensor.grad_fn for tensor in found):
        kept = [name for name in dir(node) if name.startswith("_saved_")]
        described.append(
            [node.name(), type(node).__name__, {n: attribute(torch, node, n) for n in kept}]
        )
    return described


def run(torch, family: str):
    """(expression, its nodes) of each expression of a family."""
    for expression in expressions(family):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield expression, describe(torch, expression)
