"""Networks on images: classifiers, windows, U-shapes, detectors."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.parts import Block, Heads, conv_norm_act


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


class Vit(nn.Module):
    """Patches, a token of the class, two blocks."""

    def __init__(self):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.randn(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16) * 0.1)
        self.blocks = nn.ModuleList(Block(16, 2) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


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


class Swin(nn.Module):
    """Windows that shift, a table of relative places, a mask of -100, patches merged."""

    def __init__(self):
        super().__init__()
        self.patches, self.one, self.two = nn.Conv2d(3, 8, 2, 2), nn.LayerNorm(8), nn.LayerNorm(32)
        self.heads, self.merge = Heads(8, 2), nn.Linear(32, 16, bias=False)
        self.table = nn.Parameter(torch.randn(49, 2) * 0.1)
        grid = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = (grid[:, :, None] - grid[:, None]).permute(1, 2, 0) + 3
        self.register_buffer("index", apart[..., 0] * 7 + apart[..., 1])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).permute(0, 2, 3, 1)
        bias = self.table[self.index.view(-1)].view(16, 16, 2).permute(2, 0, 1)[None]
        for shift in (0, 2):
            y = torch.roll(self.one(x), (-shift, -shift), (1, 2))
            y = self.heads(windows(y), bias + (window_mask(8, shift) if shift else 0.0))
            x = x + torch.roll(unwindows(y), (shift, shift), (1, 2))
        merged = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.merge(self.two(merged)).mean((1, 2))


def windows(x: Tensor) -> Tensor:
    """[batch, 8, 8, dim] as [batch * 4, 16, dim]."""
    return x.view(-1, 2, 4, 2, 4, x.shape[-1]).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, x.shape[-1])


def unwindows(x: Tensor) -> Tensor:
    """The way back from `windows`."""
    return x.view(-1, 2, 2, 4, 4, x.shape[-1]).permute(0, 1, 3, 2, 4, 5).reshape(-1, 8, 8, x.shape[-1])


def window_mask(size: int, shift: int) -> Tensor:
    """-100 between places that were not neighbours before the shift: [windows, 1, 16, 16]."""
    image = torch.zeros(1, size, size, 1)
    for i, rows in enumerate((slice(0, -4), slice(-4, -shift), slice(-shift, None))):
        for j, columns in enumerate((slice(0, -4), slice(-4, -shift), slice(-shift, None))):
            image[:, rows, columns] = 3 * i + j
    flat = windows(image)[..., 0]
    apart = flat[:, None] - flat[:, :, None]
    return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)[:, None]


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


class Diffusion(nn.Module):
    """A step of a diffusion model: sines of the time, which shift and scale a group norm."""

    def __init__(self):
        super().__init__()
        self.time, self.conv = nn.Linear(8, 16), nn.Conv2d(4, 8, 3, padding=1)
        self.norm, self.out = nn.GroupNorm(2, 8, affine=False), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        steps = torch.exp(-torch.arange(4) * 2.3)
        angles = time[:, None].to(x.dtype) * steps[None]
        shift, scale = self.time(torch.cat([angles.sin(), angles.cos()], -1)).chunk(2, -1)
        y = self.norm(self.conv(x)) * (1 + scale[..., None, None]) + shift[..., None, None]
        return x - 0.1 * self.out(F.silu(y))


class Squeezed(nn.Module):
    """EfficientNet's inverted bottleneck with its squeeze and its gate; a hard swish after."""

    def __init__(self):
        super().__init__()
        self.widen, self.depth = conv_norm_act(3, 12, size=1), conv_norm_act(12, 12, groups=12, size=5)
        self.squeeze, self.excite = nn.Conv2d(12, 3, 1), nn.Conv2d(3, 12, 1)
        self.narrow, self.head = nn.Conv2d(12, 6, 1), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.depth(self.widen(x))
        gate = torch.sigmoid(self.excite(F.silu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return self.head(F.hardswish(self.narrow(x * gate)).mean((2, 3)))


class Convnext(nn.Module):
    """Depthwise convolution, a layer norm over channels, a learned scale."""

    def __init__(self):
        super().__init__()
        self.stem, self.depth = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.widen, self.narrow = nn.LayerNorm(8, 1e-6), nn.Linear(8, 32), nn.Linear(32, 8)
        self.scale = nn.Parameter(torch.full((8,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.narrow(F.gelu(self.widen(y)))).permute(0, 3, 1, 2)


class MobileVit(nn.Module):
    """A transformer over the places within patches of a feature map."""

    def __init__(self):
        super().__init__()
        self.into, self.out = conv_norm_act(3, 8), conv_norm_act(11, 8)
        self.block = Block(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.into(x)
        batch, dim, height, width = y.shape
        y = y.reshape(batch * dim * (height // 2), 2, width // 2, 2).transpose(1, 2)
        y = y.reshape(batch, dim, -1, 4).transpose(1, 3).reshape(batch * 4, -1, dim)
        y = self.block(y).view(batch, 4, -1, dim).transpose(1, 3)
        y = y.reshape(batch * dim * (height // 2), width // 2, 2, 2).transpose(1, 2)
        return self.out(torch.cat([x, y.reshape(batch, dim, height, width)], 1))


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


class Selected(Detector):
    """The same, with the boxes of the best scores gathered."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = super().forward(x)
        best, which = scores.amax(1).topk(5, -1)
        return boxes.gather(2, which[:, None].expand(-1, 4, -1)), best


class Queries(nn.Module):
    """DETR: learned queries look at a feature map with sines of its places."""

    def __init__(self):
        super().__init__()
        self.body, self.queries = conv_norm_act(3, 16, stride=4), nn.Parameter(torch.randn(1, 3, 16))
        self.encoder, self.cross, self.norm = Block(16, 2), Heads(16, 2), nn.LayerNorm(16)
        self.boxes, self.classes = (
            nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)),
            nn.Linear(16, 4),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(x)
        height = torch.ones(y.shape[2], y.shape[3]).cumsum(0)[..., None] / 10 ** (torch.arange(8) / 4)
        width = torch.ones(y.shape[2], y.shape[3]).cumsum(1)[..., None] / 10 ** (torch.arange(8) / 4)
        places = torch.cat([height.sin(), width.cos()], -1).flatten(0, 1)[None]
        memory = self.encoder(y.flatten(2).transpose(1, 2) + places)
        found = self.norm(self.queries + self.cross(self.queries, memory=memory))
        return self.boxes(found).sigmoid(), self.classes(found).softmax(-1)


class Segmenter(nn.Module):
    """Dilated convolutions side by side, scores resized to the image, a class for each place."""

    def __init__(self):
        super().__init__()
        self.body = conv_norm_act(3, 8, stride=2)
        self.sides = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=rate, dilation=rate) for rate in (1, 2, 3))
        self.last, self.norm = nn.Conv2d(12, 3, 1), nn.InstanceNorm2d(12, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        y = torch.cat([F.elu(side(y)) for side in self.sides], 1)
        return F.interpolate(self.last(self.norm(y)), size=x.shape[2:], mode="bilinear", align_corners=True)


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
