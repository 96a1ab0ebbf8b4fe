"""What a client does: train with noise, and answer certification requests."""

from __future__ import annotations

import copy
import zlib
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedcert.engines.flower import answer, participant
from ward.task import load_data, make_network

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Local SGD under Gaussian noise, by FedAvg, FedProx or SCAFFOLD."""
    settings = context.run_config
    network = make_network()
    network.load_state_dict(message.content["arrays"].to_torch_state_dict())
    (x, y), _ = load_data(context.node_config)
    images, labels = torch.from_numpy(x), torch.from_numpy(y)
    start = [weight.detach().clone() for weight in network.parameters()]
    control, own = _controls(message, context, start)
    place = f"{message.content['config']['server-round']} {context.node_config}"
    generator = torch.Generator().manual_seed(zlib.crc32(place.encode()))  # other noise in every round, at every client
    rate, size, steps = float(settings["learning-rate"]), int(settings["batch-size"]), 0
    network.train()
    for _ in range(int(settings["epochs"])):
        for places in torch.randperm(len(labels), generator=generator).split(size):
            noise = torch.randn((len(places), *images.shape[1:]), generator=generator)
            batch = images[places] + float(settings["sigma"]) * noise
            loss = torch.nn.functional.cross_entropy(network(batch), labels[places])
            gradients = torch.autograd.grad(loss, list(network.parameters()))
            with torch.no_grad():
                for number, (weight, gradient) in enumerate(zip(network.parameters(), gradients, strict=True)):
                    if settings["algorithm"] == "fedprox":
                        gradient = gradient + float(settings["proximal"]) * (weight - start[number])
                    if settings["algorithm"] == "scaffold":
                        gradient = gradient + control[number] - own[number]
                    weight -= rate * gradient
            steps += 1
    records = {
        "arrays": ArrayRecord(network.state_dict()),
        "metrics": MetricRecord({"num-examples": max(len(labels), 1)}),
    }
    if settings["algorithm"] == "scaffold" and steps:
        new = [
            mine - common + (before - weight.detach()) / (steps * rate)
            for mine, common, before, weight in zip(own, control, start, network.parameters(), strict=True)
        ]
        context.state["control"] = _record(new)
        records["change"] = _record([later - earlier for later, earlier in zip(new, own, strict=True)])
    return Message(RecordDict(records), reply_to=message)


def _controls(
    message: Message, context: Context, weights: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """SCAFFOLD's control variates, the server's and this client's own; zeros at first."""
    found = (message.content.array_records.get("control"), context.state.array_records.get("control"))
    zeros = [torch.zeros_like(weight) for weight in weights]
    common, own = (
        list(record.to_torch_state_dict().values()) if record is not None else copy.deepcopy(zeros) for record in found
    )
    return common, own


def _record(tensors: list[torch.Tensor]) -> ArrayRecord:
    return ArrayRecord({str(number): tensor for number, tensor in enumerate(tensors)})


@app.query("certify")
def certify(message: Message, context: Context) -> Message:
    """Certify the server's model on this client's own test examples; counts leave, nothing else."""
    _, test = load_data(context.node_config)
    return answer(message, context, make_network(), test, class_counts=True, **_keys(context))


def _keys(context: Context) -> dict[str, Any]:
    """This client's keys and keyring, where it has some: its node names them, or, in simulation, the run.

    With a memory it takes part in private sums; without, it gives reports, and signs them.
    """
    node, settings = context.node_config, context.run_config
    if "keys" in node:
        keys, trusted, memory = str(node["keys"]), str(node["trusted"]), str(node.get("memory", ""))
    elif settings["keys"]:
        name = f"client-{node['partition-id']}"
        keys, trusted = f"{settings['keys']}/{name}.keys.json", f"{settings['keys']}/ring.json"
        memory = f"{settings['keys']}/memory-{name}" if settings["private"] else ""
    else:
        return {}
    if memory:
        return {"participant": participant(keys, trusted, memory)}
    return {"keys": keys, "trusted": trusted}
