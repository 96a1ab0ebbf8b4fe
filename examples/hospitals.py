"""Three hospitals certify one model on their own data; the server estimates for a population with another class mix."""

from pathlib import Path

import numpy as np

import fedcert

CLASSES = ["healthy", "ill"]
SHARES = {"north": 0.9, "middle": 0.6, "south": 0.2}  # of the healthy, at each hospital


def model(batch):
    """Any function from a float32 batch to class indices, or to scores."""
    return (batch.mean(axis=1) > 0.5).astype(int)


def patients(healthy, count, generator):
    """A hospital's own test data, which stays there."""
    ill = (generator.random(count) > healthy).astype(int)
    return (generator.normal(0.35 + 0.3 * ill[:, None], 0.2, (count, 8))).astype(np.float32), ill


def main():
    """Certify, estimate, show."""
    generator = np.random.default_rng(0)
    reports = []
    for name, healthy in SHARES.items():
        x, y = patients(healthy, 150, generator)
        reports.append(fedcert.certify(model, x, y, sigma=0.25, client=name, classes=CLASSES, model_id="mean-rule"))
    estimate = fedcert.estimate(reports, target={"healthy": 0.5, "ill": 0.5})
    for radius in (0.0, 0.25, 0.5):
        index = estimate.radii.index(radius)
        print(
            f"radius {radius}: {estimate.at(radius):.3f} ({estimate.lower[index]:.3f} to {estimate.upper[index]:.3f})"
        )
    print(f"That is how often the vote of {estimate.votes} noisy copies is right at least, on average over the target.")
    for check in estimate.checks:
        print(f"{check.verdict}: {check.sentence}")
    for report in reports:  # all that leaves each hospital
        Path(f"{report.client}.json").write_text(report.dumps())
    print(f"Deploy that vote: fedcert.smooth(model, sigma=0.25, votes={estimate.votes})")
    print("Now try: fedcert page north.json middle.json south.json --target uniform --out page.html")


if __name__ == "__main__":
    main()
