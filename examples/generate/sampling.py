# SPDX-License-Identifier: Apache-2.0
"""From logits to the next token."""
import numpy as np


class Sampler:
    """The most likely token (temperature 0), or one drawn from the likeliest that together have probability top_p."""

    def __init__(self, temperature=0.0, top_p=1.0, seed=0):
        if temperature < 0 or not 0 < top_p <= 1:
            raise ValueError(f"temperature is {temperature}, top_p is {top_p}; expected 0 or more, and within (0, 1]")
        self.temperature, self.top_p, self.rng = temperature, top_p, np.random.default_rng(seed)

    def probabilities(self, logits):
        """Of one row; those that can't be drawn are 0."""
        scaled = logits.astype(np.float64) / self.temperature
        weights = np.exp(scaled - scaled.max())
        weights /= weights.sum()
        order = np.argsort(-weights)
        before = np.cumsum(weights[order]) - weights[order]
        weights[order[before >= self.top_p]] = 0
        return weights / weights.sum()

    def __call__(self, logits):
        """logits (batch, vocabulary): tokens (batch)."""
        if self.temperature == 0:
            return logits.argmax(axis=-1)
        return np.array([self.rng.choice(logits.shape[-1], p=self.probabilities(row)) for row in logits])
