"""Federated training on handwritten digits, certified every few rounds: robustness watched like a loss."""

import numpy as np
import torch

import fedcert
from fedcert.lab.datasets.digits import CLASSES, load_digits
from fedcert.lab.networks import digits_network
from fedcert.lab.populations.partition import Dirichlet
from fedcert.lab.training.rounds import FederatedTraining
from fedcert.lab.training.settings import Training
from fedcert.show.tracking import tensorboard

CLIENTS, EVERY, SIGMA = 5, 4, 0.25


def main(rounds=8):
    """Train, certify, log."""
    torch.manual_seed(0)
    pixels, labels = load_digits()
    parts = Dirichlet(0.5).divide(labels, CLIENTS, np.random.default_rng(0))
    train, test = [part[::2] for part in parts], [part[1::2][:20] for part in parts]
    network = digits_network()
    settings = Training(
        rounds=rounds,
        clients_per_round=CLIENTS,
        epochs=2,
        batch_size=16,
        learning_rate=0.05,
        momentum=0.9,
        sigma=SIGMA,
        padding=0,
        flip=False,
    )
    federation = FederatedTraining(network, torch.from_numpy(pixels), torch.from_numpy(labels), train, settings)
    with tensorboard("runs/digits", radii=[0.0, 0.25]) as log:
        for made in federation.rounds():
            if made.number % EVERY:
                continue
            reports = [
                fedcert.certify(
                    network,
                    pixels[part].astype(np.float32) / 255,
                    labels[part],
                    sigma=SIGMA,
                    client=f"client-{number}",
                    classes=CLASSES,
                )
                for number, part in enumerate(test)
            ]
            estimate = fedcert.estimate(reports, target="uniform")
            log(estimate, step=made.number)
            print(f"round {made.number}: proven of a vote of 11 at radius 0.25: {estimate.at(0.25):.3f}")


if __name__ == "__main__":
    main()
