"""A controller that has the sites sum in secret, and nothing else."""

from pathlib import Path

from nvflare.app_common.workflows.model_controller import ModelController


class Private(ModelController):
    """Certifies weights from a file by a private sum."""

    def __init__(self, weights, keys, folder):
        super().__init__(persistor_id="", ignore_result_error=True)
        self.weights, self.keys, self.folder = weights, keys, folder

    def run(self):
        """One private round."""
        from ward.task import CLASSES

        from fedcert.certification.models.loading import module_of
        from fedcert.engines.nvflare import certify_privately
        from fedcert.privacy.keys.identity import read_identity
        from fedcert.privacy.keys.keyring import read_keyring

        keys = Path(self.keys)
        estimate = certify_privately(
            self, module_of("ward.task:make_network", Path(self.weights)), classes=CLASSES,
            smoothing={"sigma": 0.25, "procedure": "population"}, seconds=120.0, roster=["site-1", "site-2", "site-3"], threshold=3, fewest_holders=2, moments=True,
            keys=read_identity(keys / "coordinator.keys.json"), trusted=read_keyring(keys / "ring.json"),
            run=self.folder,
        )  # fmt: skip
        self.info(f"a private sum over {estimate.clients} clients")
