"""Three hospitals certify one model on their own data; the server estimates for a population with another class mix."""

import numpy as np

import fedcert

CLASSES = ["healthy", "ill"]
SHARES = {"north": 0.9, "middle": 0.6, "south": 0.2}  # of the healthy, at each hospital
TARGET = {"healthy": 0.5, "ill": 0.5}


def model(batch):
    """Any function from a float32 batch to class indices, or to scores."""
    return (batch.mean(axis=1) > 0.5).astype(int)


def patients(healthy, count, generator):
    """A hospital's own test data, which stays there."""
    ill = (generator.random(count) > healthy).astype(int)
    return (generator.normal(0.35 + 0.3 * ill[:, None], 0.2, (count, 8))).astype(np.float32), ill


def main():
    """Ask, certify, collect, show."""
    generator = np.random.default_rng(3)
    asked = fedcert.request("mean-rule", 0.25, CLASSES, n=64, roster=list(SHARES), class_counts=True)
    reports = []
    for name, healthy in SHARES.items():
        x, y = patients(healthy, 150, generator)
        report = fedcert.certify(model, x, y, request=asked, client=name, model_id="mean-rule")
        report.save(f"{name}.json")  # all that leaves the hospital
        reports.append(report)
    estimate = fedcert.collect(reports, request=asked, target=TARGET, target_name="new clinic", page="page.html")
    print(estimate)
    for radius in (0.0, 0.25, 0.5):
        print(f"radius {radius}: {estimate.at(radius):.1%}")
    estimate.save("estimate.json")
    print("Open page.html in a browser, and move the sliders.")


if __name__ == "__main__":
    main()
