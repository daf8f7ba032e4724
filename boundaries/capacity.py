"""How few devices hold a scenario: what a smaller format saves in hardware."""

from dataclasses import replace

from infopt.boundaries.weight_kernels import obstacle
from infopt.ledgers.links import NODE_DEVICES
from infopt.ledgers.memory import memory_ledger
from infopt.ledgers.scenario import Scenario, allowed_tensor_parallel


def fewest_devices(s: Scenario) -> int | None:
    """The least number of devices of one node that holds the scenario's batch at its pp and dp; None: none does.

    Tried are the powers of two the model allows and the weight format can be cut into.
    """
    node = s.accelerator.devices_per_node or NODE_DEVICES
    for tp in allowed_tensor_parallel(s.model, node):
        if tp & (tp - 1):
            continue
        ep = 1 if s.ep == 1 else tp if s.ep == s.tp else tp * s.dp
        tried = replace(s, tp=tp, ep=ep, gpus=tp * s.pp * s.dp)
        if tried.gpus <= node and holds(tried) and not obstacle(tried):
            return tried.gpus
    return None


def holds(s: Scenario) -> bool:
    """Whether the ledger's best value holds this batch."""
    return memory_ledger(s).max_sequences >= s.batch_per_replica
