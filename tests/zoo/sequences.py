"""Networks along time: recurrent ones, state spaces, convolutions, sound, events."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.parts import Heads


class Recurrent(nn.Module):
    """LSTM or GRU in both directions over an embedding, a linear layer at the end."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU] = nn.LSTM):
        super().__init__()
        self.words, self.net = nn.Embedding(30, 8), kind(8, 8, 2, batch_first=True, bidirectional=True)
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


class Wave(nn.Module):
    """WaveNet: gated dilated convolutions with skips."""

    def __init__(self):
        super().__init__()
        self.filters = nn.ModuleList(nn.Conv1d(4, 4, 2, dilation=2**i) for i in range(3))
        self.gates = nn.ModuleList(nn.Conv1d(4, 4, 2, dilation=2**i) for i in range(3))
        self.last = nn.Conv1d(4, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor | float = 0.0
        for i, (filter_, gate) in enumerate(zip(self.filters, self.gates, strict=True)):
            padded = F.pad(x, (2**i, 0))
            made = torch.tanh(filter_(padded)) * torch.sigmoid(gate(padded))
            x, total = x + made, total + made
        return F.log_softmax(self.last(F.relu(total)), 1)


class Conformer(nn.Module):
    """Half feed-forward parts around attention and a gated convolution."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(4))
        self.heads, self.feed = Heads(8, 2), nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
        self.widen, self.depth = nn.Conv1d(8, 16, 1), nn.Conv1d(8, 8, 5, padding=2, groups=8)
        self.batch, self.out = nn.BatchNorm1d(8), nn.Conv1d(8, 8, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        hidden = torch.arange(x.shape[1])[None] >= lengths[:, None]
        mask = torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))[:, None, None]
        x = x + 0.5 * self.feed(self.norms[0](x))
        x = x + self.heads(self.norms[1](x), mask)
        y = F.glu(self.widen(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.out(F.silu(self.batch(self.depth(y)))).transpose(1, 2)
        return self.norms[3](x + 0.5 * self.feed(x))


class Whisper(nn.Module):
    """The front of a recogniser: two convolutions with GELU, a log of powers that is clamped."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv1d(6, 8, 3, padding=1), nn.Conv1d(8, 8, 3, 2, 1)
        self.places, self.heads, self.norm = nn.Parameter(torch.randn(8, 8)), Heads(8, 2), nn.LayerNorm(8)

    def forward(self, powers: Tensor) -> Tensor:
        logs = torch.log10(powers.clamp(min=1e-10))
        logs = (torch.maximum(logs, logs.amax((1, 2), keepdim=True) - 8.0) + 4.0) / 4.0
        x = F.gelu(self.two(F.gelu(self.one(logs)))).transpose(1, 2) + self.places
        return self.norm(x + self.heads(x))


class Flow(nn.Module):
    """A normalising flow: an affine coupling with its logarithm of the determinant."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        left, right = x.chunk(2, -1)
        shift, scale = self.net(left).chunk(2, -1)
        scale = torch.tanh(scale) * 2
        made = torch.cat([left, right * scale.exp() + shift], -1)
        chance = -0.5 * (made**2 + 1.837877).sum(-1) + scale.sum(-1)
        return made, chance


class Ranker(nn.Module):
    """A recommender: embeddings, products of pairs, a tower, a logit."""

    def __init__(self):
        super().__init__()
        self.items, self.tower = (
            nn.Embedding(40, 8),
            nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1)),
        )
        self.dense = nn.Linear(5, 8)

    def forward(self, numbers: Tensor, items: Tensor) -> Tensor:
        found = torch.cat([torch.relu(self.dense(numbers.log1p()))[:, None], self.items(items)], 1)
        pairs = found @ found.transpose(1, 2)
        rows, columns = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.tower(torch.cat([found[:, 0], pairs[:, rows, columns]], 1)))


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
