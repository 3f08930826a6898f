"""Networks on tokens: encoders, decoders, and what stands between."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.parts import LEAST, Block, Gated, Heads, RootMean, causal_mask

WORDS = 50


class Bert(nn.Module):
    """An encoder; the mask of padding is made of the least float by `(1 - mask) * least`."""

    def __init__(self, dim: int = 16, layers: int = 2, act: str = "none"):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, dim), nn.Embedding(32, dim)
        self.norm = nn.LayerNorm(dim)
        self.blocks = nn.ModuleList(Block(dim, 2, before=False, act=act) for _ in range(layers))
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

    def __init__(self, blocked: float = LEAST, layers: int = 2):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Embedding(32, 16)
        self.blocks = nn.ModuleList(Block(16, 2, act="tanh") for _ in range(layers))
        self.norm, self.blocked = nn.LayerNorm(16), blocked

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        mask = causal_mask(length, self.blocked).to(self.words.weight.dtype)
        x = self.words(ids) + self.places(torch.arange(length))
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.words.weight.T


class GptWhere(Gpt):
    """GPT-2's own way: a table of booleans chooses between the score and the least float."""

    def __init__(self):
        super().__init__()
        self.query_key = nn.Linear(16, 48)
        self.register_buffer("table", torch.ones(1, 1, 32, 32, dtype=torch.bool).tril())

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(length))
        query, key, value = self.query_key(self.norm(x)).split(16, -1)
        scores = query[:, None] @ key[:, None].transpose(-1, -2) / 4.0
        scores = torch.where(self.table[:, :, :length, :length], scores, torch.tensor(self.blocked))
        x = x + (F.softmax(scores, -1) @ value[:, None])[:, 0]
        for block in self.blocks:
            x = block(x, causal_mask(length, self.blocked))
        return self.norm(x) @ self.words.weight.T


class Llama(nn.Module):
    """RMSNorm, rotary embeddings, grouped keys, a gated feed-forward part, no biases."""

    def __init__(self, layers: int = 2, experts: int = 0):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.norms = nn.ModuleList(RootMean(16) for _ in range(2 * layers + 1))
        self.heads = nn.ModuleList(Heads(16, 4, 2, rotary=True, bias=False) for _ in range(layers))
        made = (lambda: Experts(16, experts)) if experts else (lambda: Gated(16, 24))
        self.feeds = nn.ModuleList(made() for _ in range(layers))

    def forward(self, ids: Tensor, padding: Tensor) -> Tensor:
        x = self.words(ids)
        mask = causal_mask(ids.shape[1], LEAST)[None, None]
        mask = mask.masked_fill((padding == 0)[:, None, None, :], LEAST).to(x.dtype)
        for i, (heads, feed) in enumerate(zip(self.heads, self.feeds, strict=True)):
            x = x + heads(self.norms[2 * i](x), mask)
            x = x + feed(self.norms[2 * i + 1](x))
        return self.norms[-1](x) @ self.words.weight.T


class Experts(nn.Module):
    """A mixture of experts: the two best of a router, all computed, weighed by what was routed."""

    def __init__(self, dim: int, count: int):
        super().__init__()
        self.router = nn.Linear(dim, count, bias=False)
        self.experts = nn.ModuleList(Gated(dim, dim) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        best, which = torch.topk(torch.softmax(self.router(x), -1), 2)
        best = best / best.sum(-1, keepdim=True)
        weights = torch.zeros_like(self.router(x)).scatter(-1, which, best)
        made = torch.stack([expert(x) for expert in self.experts], -1)
        return (made * weights[..., None, :]).sum(-1)


class Relative(nn.Module):
    """T5's encoder block: RMSNorm, no scale, a bias by bucket of distance."""

    def __init__(self):
        super().__init__()
        self.words, self.bias = nn.Embedding(WORDS, 16), nn.Embedding(8, 2)
        self.heads, self.norms = Heads(16, 2, bias=False), nn.ModuleList(RootMean(16) for _ in range(3))
        self.widen, self.narrow = nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1])
        apart = places[None] - places[:, None]
        near = apart.abs()
        far = 2 + (torch.log(near.float().clamp(min=1) / 2) / 2.0794 * 2).long()
        buckets = torch.where(near < 2, near, far.clamp(max=3)) + (apart > 0).long() * 4
        x = self.words(ids)
        x = x + self.heads(self.norms[0](x), self.bias(buckets).permute(2, 0, 1)[None])
        x = x + self.narrow(torch.relu(self.widen(self.norms[1](x))))
        return self.norms[2](x)


class Slopes(nn.Module):
    """BLOOM's linear biases, and its own GELU written out."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, 16), nn.LayerNorm(16)
        self.heads, self.widen, self.narrow = Heads(16, 4), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])
        places = ((mask.cumsum(-1) - 1) * mask).float()
        bias = slopes[None, :, None, None] * places[:, None, None, :]
        x = self.norm(self.words(ids))
        x = x + self.heads(x, bias + causal_mask(ids.shape[1], LEAST))
        y = self.widen(x)
        y = y * 0.5 * (1.0 + torch.tanh(0.79788456 * y * (1 + 0.044715 * y * y)))
        return x + self.narrow(y)


class Translator(nn.Module):
    """An encoder and a decoder that looks at it; the classes with the greatest scores come out, too."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.encoder, self.decoder = Block(16, 2), Block(16, 2)
        self.cross, self.norm = Heads(16, 2), nn.LayerNorm(16)

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.encoder(self.words(source))
        x = self.decoder(self.words(target), causal_mask(target.shape[1], float("-inf")))
        x = self.norm(x + self.cross(x, memory=memory))
        scores = torch.log_softmax(x @ self.words.weight.T, -1)
        return scores, scores.argmax(-1)


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


class Fused(nn.Module):
    """torch's own encoder layer and scaled attention, as they stand in many code bases."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Ternary(nn.Linear):
    """BitNet's product: operands rounded to 256 steps a row, weights to -1, 0 and 1."""

    def forward(self, x: Tensor) -> Tensor:
        steps = 127.0 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
        size = self.weight.abs().mean().clamp(min=1e-5)
        whole = (x * steps).round().clamp(-128, 127)
        weights = (self.weight / size).round().clamp(-1, 1)
        return F.linear(whole, weights) / steps * size


class BitNet(nn.Module):
    """A decoder whose feed-forward parts are of such products; `stored` is the type between its blocks."""

    def __init__(self, stored: torch.dtype = torch.float32):
        super().__init__()
        self.words, self.head, self.stored = nn.Embedding(WORDS, 16), Ternary(16, 12), stored
        self.attention = nn.ModuleList(Heads(16, 2, rotary=True) for _ in range(2))
        self.wide = nn.ModuleList(Ternary(16, 32, bias=False) for _ in range(2))
        self.narrow = nn.ModuleList(Ternary(32, 16, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(RootMean(16) for _ in range(4))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for i, (attention, wide, narrow) in enumerate(
            zip(self.attention, self.wide, self.narrow, strict=True)
        ):
            x = (x + attention(self.norms[2 * i](x))).to(self.stored).float()
            x = x + narrow(F.relu(wide(self.norms[2 * i + 1](x))).square())
        return self.head(x)


class Buckets(nn.Module):
    """DeBERTa's places relative to each other, in buckets that are logarithms rounded up."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Embedding(16, 2)
        self.query, self.key, self.norm = nn.Linear(16, 16), nn.Linear(16, 16), nn.LayerNorm(16, eps=1e-7)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        wide = mask.to(torch.float32)
        allowed = (wide[:, :, None] * wide[:, None, :]).to(torch.uint8)
        x = self.norm(self.words(ids))
        along = torch.arange(ids.shape[1])
        apart = (along[:, None] - along[None]).to(torch.float32)
        far = torch.ceil(torch.log(apart.abs().clamp(min=1) / 2.0) / 1.5 * 2.0) + 2
        bucket = torch.where(apart.abs() <= 2, apart, far * apart.sign()).to(torch.int64)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 4.0 + self.places(bucket + 8).sum(-1)
        seen = torch.softmax(scores.masked_fill(allowed == 0, LEAST), -1).masked_fill(allowed == 0, 0.0)
        return seen @ x
