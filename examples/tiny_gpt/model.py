"""A minimal byte-level GPT."""

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 256  # bytes


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(hidden), nn.LayerNorm(hidden)])
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, hidden = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    """A model whose call returns the loss, because DDP and DeepSpeed wrap the call."""

    def __init__(self, layers: int, hidden: int, heads: int, sequence: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, hidden)
        self.positions = nn.Embedding(sequence, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, VOCABULARY, bias=False)
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        x = self.norm(self.blocks(self.tokens(inputs) + self.positions(positions)))
        return functional.cross_entropy(self.head(x).float().flatten(0, 1), targets.flatten())
