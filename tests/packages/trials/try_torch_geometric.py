"""torch-geometric: convolutions on graphs, batches, loaders, pooling, heterogeneous graphs."""

import torch
import torch_geometric as tg
import torch_geometric.nn as gnn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.utils import (
    add_self_loops,
    degree,
    dense_to_sparse,
    k_hop_subgraph,
    softmax,
    to_dense_adj,
    to_undirected,
)

tg.seed_everything(0)
edges = to_undirected(torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]))
x = torch.randn(5, 8)
for conv in (
    gnn.GCNConv(8, 4),
    gnn.GATConv(8, 4, heads=2, concat=False),
    gnn.GATv2Conv(8, 4),
    gnn.SAGEConv(8, 4),
    gnn.GINConv(gnn.MLP([8, 16, 4])),
    gnn.TransformerConv(8, 4),
    gnn.ChebConv(8, 4, 3),
    gnn.GraphConv(8, 4),
    gnn.TAGConv(8, 4),
    gnn.EdgeConv(gnn.MLP([16, 4])),
    gnn.PNAConv(
        8, 4, ["mean", "max", "std"], ["identity", "amplification"], torch.tensor([0, 0, 5])
    ),
    gnn.LEConv(8, 4),
    gnn.SGConv(8, 4),
    gnn.APPNP(3, 0.1),
):
    out = conv(x, edges)
    if out.requires_grad:
        out.square().mean().backward()
    assert out.shape[0] == 5 and out.isfinite().all(), conv
graphs = [
    Data(
        x=torch.randn(n, 8),
        edge_index=to_undirected(torch.randint(0, n, (2, 2 * n))),
        y=torch.tensor([n % 2]),
    )
    for n in range(4, 20)
]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = gnn.GCNConv(8, 32), gnn.GCNConv(32, 32)
        self.norm, self.out = gnn.BatchNorm(32), torch.nn.Linear(64, 2)

    def forward(self, data):
        h = self.norm(self.a(data.x, data.edge_index)).relu()
        h = self.b(h, data.edge_index).relu()
        pooled = [gnn.global_mean_pool(h, data.batch), gnn.global_max_pool(h, data.batch)]
        return self.out(torch.cat(pooled, 1))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
losses = []
for _ in range(15):
    total = 0.0
    for batch in DataLoader(graphs, batch_size=4, shuffle=True):
        loss = torch.nn.functional.cross_entropy(net(batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    losses.append(total)
assert losses[-1] < losses[0], losses
batch = Batch.from_data_list(graphs[:3])
assert batch.num_graphs == 3 and batch.to_data_list()[1].num_nodes == 5
assert (
    to_dense_adj(edges).shape == (1, 5, 5)
    and dense_to_sparse(to_dense_adj(edges)[0])[0].shape == edges.shape
)
assert add_self_loops(edges)[0].shape[1] == edges.shape[1] + 5 and degree(edges[0]).eq(2).all()
assert k_hop_subgraph(0, 1, edges)[0].tolist() == [0, 1, 4]
torch.testing.assert_close(softmax(torch.zeros(10), edges[0]), torch.full((10,), 0.5))
hetero = HeteroData()
hetero["a"].x, hetero["b"].x = torch.randn(4, 8), torch.randn(3, 8)
hetero["a", "to", "b"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
hetero["b", "of", "a"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
conv = gnn.HeteroConv({t: gnn.SAGEConv((-1, -1), 4) for t in hetero.edge_types})
assert conv(hetero.x_dict, hetero.edge_index_dict)["b"].shape == (3, 4)
pooled, pooled_edges = gnn.TopKPooling(8, 0.6)(x, edges)[:2]
assert pooled.shape == (3, 8)
print("ok")
