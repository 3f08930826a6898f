import torch


def model(x):
    y = torch.cond(x.sum() > 0, lambda z: z.sin() * 2, lambda z: z.cos(), (x,))
    return y.t().contiguous() + 1


inputs = (torch.ones(2, 3),)
