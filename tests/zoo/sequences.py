"""Networks along time and along edges: a recurrent one, a state space, messages."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Recurrent(nn.Module):
    """An LSTM in both directions over an embedding, a linear layer at the end."""

    def __init__(self):
        super().__init__()
        self.words, self.net = nn.Embedding(30, 8), nn.LSTM(8, 8, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.net(self.words(ids))[0])


class Mamba(nn.Module):
    """A selective state space: a causal depthwise convolution, then the scan written out step by step."""

    def __init__(self, dim: int = 8, states: int = 4):
        super().__init__()
        self.into, self.conv = (
            nn.Linear(dim, 4 * dim),
            nn.Conv1d(2 * dim, 2 * dim, 3, padding=2, groups=2 * dim),
        )
        self.project, self.steps = nn.Linear(2 * dim, 2 * states + 2), nn.Linear(2, 2 * dim)
        self.log = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(2 * dim, 1))
        self.skip, self.out = nn.Parameter(torch.ones(2 * dim)), nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        y, gate = self.into(x).chunk(2, -1)
        y = F.silu(self.conv(y.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)
        rank, enters, leaves = self.project(y).split([2, 4, 4], -1)
        delta = F.softplus(self.steps(rank))
        kept = torch.exp(delta[..., None] * -torch.exp(self.log))
        added = delta[..., None] * enters[:, :, None] * y[..., None]
        state, seen = torch.zeros_like(added[:, 0]), []
        for i in range(x.shape[1]):
            state = kept[:, i] * state + added[:, i]
            seen.append((state * leaves[:, i, None]).sum(-1))
        return self.out((torch.stack(seen, 1) + y * self.skip) * F.silu(gate))


class Messages(nn.Module):
    """A graph network: messages along edges, added up where they arrive, by degree."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 8), nn.Linear(14, 4)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        sent = torch.relu(self.one(x[source]))
        places = target[:, None].expand(-1, 8)
        total = torch.zeros(x.shape[0], 8).scatter_add(0, places, sent)
        degree = torch.zeros(x.shape[0]).scatter_add(0, target, torch.ones(target.shape)).clamp(min=1)
        return F.normalize(self.two(torch.cat([x, total / degree[:, None]], -1)), dim=-1)
