"""Figures for papers, with one look: colour-blind readers can distinguish all curves, also in grey."""

from fedcert.show.figures.curves import plot
from fedcert.show.figures.learning import plot_learning
from fedcert.show.figures.mixes import plot_mixes, plot_partition
from fedcert.show.figures.style import FORMATS
from fedcert.show.figures.weights import plot_weights

__all__ = ["FORMATS", "plot", "plot_learning", "plot_mixes", "plot_partition", "plot_weights"]
