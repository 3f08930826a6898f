import torch


def model(x, a, b):
    y = torch.softmax(x, -1)
    q = a // b
    z = torch.nn.functional.layer_norm(y + q[:, :4], (4,))
    return torch.cat([z, y], 1), q


inputs = (
    torch.linspace(-1, 2, 16).reshape(4, 4),
    torch.tensor([[1.0, 0.5, 6.0, 1.0]]).repeat(4, 1),
    torch.full((4, 4), 0.1),
)
