"""The parts that several networks of the zoo share."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEAST = torch.finfo(torch.float32).min
"""What exporters of transformers put where attention must not look."""


def causal_mask(length: int, value: float) -> Tensor:
    """`value` above the diagonal, zero elsewhere: [length, length]."""
    return torch.full((length, length), value).triu(1)


class Heads(nn.Module):
    """Attention of several heads, written out as exporters see it; `groups` heads share keys and values."""

    def __init__(self, dim: int, heads: int, groups: int = 1, *, rotary: bool = False, bias: bool = True):
        super().__init__()
        self.heads, self.groups, self.rotary = heads, groups, rotary
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key = nn.Linear(dim, dim // groups, bias=bias)
        self.value = nn.Linear(dim, dim // groups, bias=bias)
        self.out = nn.Linear(dim, dim, bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query = self._split(self.query(x), self.heads)
        key, value = (
            self._split(made(x), self.heads // self.groups).repeat_interleave(self.groups, 1)
            for made in (self.key, self.value)
        )
        if self.rotary:
            query, key = rotate(query), rotate(key)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores + mask
        mixed = torch.softmax(scores, -1) @ value
        return self.out(mixed.transpose(1, 2).flatten(2))

    @staticmethod
    def _split(x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def rotate(x: Tensor) -> Tensor:
    """Rotary position embedding of [batch, heads, length, dim]."""
    length, dim = x.shape[-2], x.shape[-1]
    inverse = 1.0 / 10000 ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angles = torch.arange(length, dtype=torch.float32)[:, None] * inverse[None]
    angles = torch.cat([angles, angles], -1).to(x.dtype)
    half = torch.cat([-x[..., dim // 2 :], x[..., : dim // 2]], -1)
    return x * angles.cos() + half * angles.sin()


class RootMean(nn.Module):
    """RMSNorm as Llama has it."""

    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Gated(nn.Module):
    """The feed-forward part of Llama: SiLU of one product gates another."""

    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A block of a transformer; `before` says whether norms stand before or after the parts."""

    def __init__(self, dim: int, heads: int, *, before: bool = True, act: str = "none"):
        super().__init__()
        self.attention = Heads(dim, heads)
        self.one, self.two = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.widen, self.narrow = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.before, self.act = before, act

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.before:
            x = x + self.attention(self.one(x), mask)
            return x + self._feed(self.two(x))
        x = self.one(x + self.attention(x, mask))
        return self.two(x + self._feed(x))

    def _feed(self, x: Tensor) -> Tensor:
        return self.narrow(F.gelu(self.widen(x), approximate=self.act))


def conv_norm_act(source: int, target: int, *, stride: int = 1) -> nn.Module:
    """Convolution, batch norm whose statistics are not the trivial ones, SiLU."""
    norm = nn.BatchNorm2d(target)
    with torch.no_grad():
        norm.running_mean.uniform_(-0.3, 0.3)
        norm.running_var.uniform_(0.5, 1.5)
    conv = nn.Conv2d(source, target, 3, stride, 1, bias=False)
    return nn.Sequential(conv, norm, nn.SiLU())
