"""Networks on tokens: encoders, decoders, and what stands between."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.parts import LEAST, Block, Gated, Heads, RootMean, causal_mask

WORDS = 50


class Bert(nn.Module):
    """An encoder; the mask of padding is made of the least float by `(1 - mask) * least`."""

    def __init__(self):
        super().__init__()
        dim = 16
        self.words, self.places = nn.Embedding(WORDS, dim), nn.Embedding(32, dim)
        self.norm = nn.LayerNorm(dim)
        self.blocks = nn.ModuleList(Block(dim, 2, before=False) for _ in range(2))
        self.pooler, self.head = nn.Linear(dim, dim), nn.Linear(dim, 3)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        wide = (1.0 - mask[:, None, None, :].to(self.head.weight.dtype)) * torch.finfo(
            self.head.weight.dtype
        ).min
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        for block in self.blocks:
            x = block(x, wide)
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class Gpt(nn.Module):
    """A decoder; what attention must not see holds the `blocked` value."""

    def __init__(self, blocked: float):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Embedding(32, 16)
        self.blocks = nn.ModuleList(Block(16, 2, act="tanh") for _ in range(2))
        self.norm, self.blocked = nn.LayerNorm(16), blocked

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        mask = causal_mask(length, self.blocked).to(self.words.weight.dtype)
        x = self.words(ids) + self.places(torch.arange(length))
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.words.weight.T


class Llama(nn.Module):
    """RMSNorm, rotary embeddings, grouped keys, a gated feed-forward part, no biases."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.norms = nn.ModuleList(RootMean(16) for _ in range(5))
        self.heads = nn.ModuleList(Heads(16, 4, 2, rotary=True, bias=False) for _ in range(2))
        self.feeds = nn.ModuleList(Gated(16, 24) for _ in range(2))

    def forward(self, ids: Tensor, padding: Tensor) -> Tensor:
        x = self.words(ids)
        mask = causal_mask(ids.shape[1], LEAST)[None, None]
        mask = mask.masked_fill((padding == 0)[:, None, None, :], LEAST).to(x.dtype)
        for i, (heads, feed) in enumerate(zip(self.heads, self.feeds, strict=True)):
            x = x + heads(self.norms[2 * i](x), mask)
            x = x + feed(self.norms[2 * i + 1](x))
        return self.norms[-1](x) @ self.words.weight.T


class Cached(nn.Module):
    """One step of a decoder with its cache of keys and values, which come out longer by one."""

    def __init__(self):
        super().__init__()
        self.project, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self.project(self.norm(x)).chunk(3, -1)
        keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
        mixed = F.scaled_dot_product_attention(query[:, None], keys[:, None], values[:, None])[:, 0]
        return x + self.out(mixed), keys, values
