"""A controller that trains, in its way, and then certifies what it trained: not what `load_model()` would give."""

from nvflare.app_common.workflows.model_controller import ModelController


class Trained(ModelController):
    """Adds 1 to every weight, and certifies."""

    def __init__(self, folder):
        super().__init__(persistor_id="", ignore_result_error=True)
        self.folder = folder

    def run(self):
        """One round of "training", then certification."""
        from ward.task import CLASSES, make_network

        from fedcert.engines.nvflare import certify_round

        network = make_network()
        params = {name: tensor.numpy() + 1.0 for name, tensor in network.state_dict().items()}
        certify_round(self, network, params, classes=CLASSES, smoothing=0.25, seconds=120.0, run=self.folder)
