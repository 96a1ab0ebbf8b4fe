"""The client."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quick.task import Net, load_data
from quick.task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    partition_id = context.node_config["partition-id"]
    num_partitions = context.node_config["num-partitions"]
    trainloader, _ = load_data(partition_id, num_partitions, context.run_config["batch-size"])
    loss = train_fn(model, trainloader, context.run_config["local-epochs"], context.run_config["learning-rate"])
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"train_loss": loss, "num-examples": len(trainloader.dataset)}),
        }
    )
    return Message(content=content, reply_to=msg)
