"""Networks on images: a classifier, a U-shape, a detector, and attention between convolutions."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.parts import conv_norm_act


class Residual(nn.Module):
    """ResNet: two blocks, a stride, a pool."""

    def __init__(self):
        super().__init__()
        self.stem, self.pool = conv_norm_act(3, 8, stride=2), nn.MaxPool2d(3, 2, 1)
        self.one = nn.Sequential(conv_norm_act(8, 8), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.down, self.two = nn.Conv2d(8, 12, 1, 2), conv_norm_act(8, 12, stride=2)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stem(x))
        x = torch.relu(x + self.one(x))
        x = torch.relu(self.down(x) + self.two(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Reduced(nn.Module):
    """A block of SegFormer: attention to an image made smaller, a convolution between two layers."""

    def __init__(self, dim: int, ratio: int):
        super().__init__()
        self.one, self.two, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q, self.kv, self.out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.smaller = nn.Conv2d(dim, dim, ratio, ratio)
        self.widen, self.narrow = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.deep = nn.Conv2d(2 * dim, 2 * dim, 3, padding=1, groups=2 * dim)

    def forward(self, x: Tensor, side: int) -> Tensor:
        y = self.one(x)
        small = self.smaller(y.transpose(-2, -1).unflatten(2, (side, side))).flatten(2).transpose(-2, -1)
        kv = self.kv(self.norm(small)).unflatten(2, (2, 2, -1)).permute(2, 0, 3, 1, 4)
        q = self.q(y).unflatten(2, (2, -1)).transpose(1, 2)
        scores = (q @ kv[0].transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        x = x + self.out((scores @ kv[1]).transpose(1, 2).flatten(2))
        y = self.deep(self.widen(self.two(x)).transpose(-2, -1).unflatten(2, (side, side)))
        return x + self.narrow(F.gelu(y.flatten(2).transpose(-2, -1)))


class Segformer(nn.Module):
    """Four scales of such blocks; quantised it has a thousand nodes and more."""

    def __init__(self):
        super().__init__()
        dims = (3, 8, 16, 24, 32)
        self.patches = nn.ModuleList(
            nn.Conv2d(dims[i], dims[i + 1], 3, 4 if i == 0 else 2, 1) for i in range(4)
        )
        self.blocks = nn.ModuleList(
            Reduced(dim, ratio) for dim, ratio in zip(dims[1:], (4, 2, 1, 1), strict=True)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for dim in dims[1:])
        self.levels = nn.ModuleList(nn.Conv2d(dim, 16, 1) for dim in dims[1:])
        self.fuse, self.classes = nn.Conv2d(64, 16, 1), nn.Conv2d(16, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for patches, block, norm, level in zip(
            self.patches, self.blocks, self.norms, self.levels, strict=True
        ):
            x = patches(x)
            side = x.shape[-1]
            x = norm(block(x.flatten(2).transpose(-2, -1), side)).transpose(-2, -1).unflatten(2, (side, side))
            seen.append(level(x))
        size = seen[0].shape[2:]
        seen = [F.interpolate(each, size=size, mode="bilinear") for each in seen]
        return self.classes(F.relu(self.fuse(torch.cat(seen, 1))))


class Unet(nn.Module):
    """Down, up by interpolation and by transposed convolution, with group norms and skips."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm, self.up = nn.GroupNorm(4, 16), nn.ConvTranspose2d(16, 8, 2, 2)
        self.mix, self.last = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(11, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        high = F.silu(self.one(x))
        low = F.silu(self.norm(self.two(high)))
        mixed = F.leaky_relu(self.mix(torch.cat([high, self.up(low)], 1)), 0.1)
        small = F.avg_pool2d(mixed, 2)
        again = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.sigmoid(self.last(torch.cat([again, x], 1)))


class Detector(nn.Module):
    """A head as YOLO has it: distances by a softmax over bins, boxes about anchors, class scores."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv_norm_act(3, 8, stride=2), conv_norm_act(8, 16, stride=2))
        self.boxes, self.classes = nn.Conv2d(16, 16, 1), nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(x)
        bins = self.boxes(y).flatten(2).view(x.shape[0], 4, 4, -1).softmax(2)
        sides = (bins * torch.arange(4.0)[None, None, :, None]).sum(2)
        rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
        anchors = torch.stack([columns, rows]).flatten(1)[None] + 0.5
        low, high = anchors - sides[:, :2], anchors + sides[:, 2:]
        boxes = torch.cat([(low + high) / 2, high - low], 1) * 4.0
        return boxes, self.classes(y).flatten(2).sigmoid()


class Upscaler(nn.Module):
    """Super-resolution: PReLU, pixel shuffle, a clamp."""

    def __init__(self):
        super().__init__()
        self.one, self.act, self.two = (
            nn.Conv2d(3, 8, 5, padding=2),
            nn.PReLU(8),
            nn.Conv2d(8, 12, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(self.two(self.act(self.one(F.pad(x, (1, 1, 1, 1), mode="reflect")))), 2).clamp(
            -1, 1
        )
