"""The server."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quick.task import NAMES, Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train."""
    global_model = Net()
    strategy = FedAvg(fraction_evaluate=0.0)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(global_model.state_dict()),
        num_rounds=context.run_config["num-server-rounds"],
    )
    print(f"trained a model that tells {' from '.join(NAMES)}: {len(result.arrays)} arrays")
