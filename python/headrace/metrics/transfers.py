"""Metrics of bytes between device and jobs, and of the requests for them.

There is one byte rate at each of four boundaries: uncompressed event data, bytes requested by the
jobs (read and written), bytes served to them, bytes moved by the device.
"""

from headrace.metrics import Metric
from headrace.metrics.trial import RecordedTrial, ratio


def _requested(trial: RecordedTrial) -> float | None:
    done = trial.done("bytes_asked") + trial.done("bytes_written")
    return ratio(done, trial.time_s) if trial.requested_bytes > 0 else None


def _device_requests(trial: RecordedTrial) -> float | None:
    device = trial.record.device
    return (
        None
        if device is None
        else ratio(device.requests_read + device.requests_write, trial.last_done_s)
    )


def _flash_write_amplification(trial: RecordedTrial) -> float | None:
    device = trial.record.device
    if device is None or not device.flash_host_bytes:
        return None
    return device.flash_written_bytes / device.flash_host_bytes


UNCOMPRESSED_BYTES_PER_S = Metric(
    name="uncompressed_bytes_per_s",
    title="Uncompressed rate",
    unit="B/s",
    scale="prefixed",
    value=lambda trial: trial.rate("bytes_uncompressed"),
    rank=70,
    byte_boundary=True,
)
ASKED_BYTES_PER_S = Metric(
    name="asked_bytes_per_s",
    title="Requested rate",
    unit="B/s",
    scale="prefixed",
    value=_requested,
    rank=80,
    byte_boundary=True,
)
SERVED_BYTES_PER_S = Metric(
    name="served_bytes_per_s",
    title="Served rate",
    unit="B/s",
    scale="prefixed",
    value=lambda trial: trial.rate("bytes_served"),
    rank=90,
    byte_boundary=True,
)
NETWORK_BYTES_PER_S = Metric(
    name="network_bytes_per_s",
    title="Network rate",
    unit="B/s",
    scale="prefixed",
    value=lambda trial: ratio(trial.network_bytes, trial.last_done_s),
    needs="counters of the nodes' interfaces",
    rank=120,
    byte_boundary=True,
)
# Device counters include read-ahead and metadata.
DEVICE_BYTES_PER_S = Metric(
    name="device_bytes_per_s",
    title="Device rate",
    unit="B/s",
    scale="prefixed",
    value=lambda trial: ratio(trial.device_bytes, trial.last_done_s),
    rank=100,
    byte_boundary=True,
)
AMPLIFICATION = Metric(
    name="amplification",
    title="Amplification",
    unit="×",
    better="less",
    value=lambda trial: ratio(trial.device_bytes, trial.requested_bytes),
    rank=110,
)
NETWORK_AMPLIFICATION = Metric(
    name="network_amplification",
    title="Amplification, network",
    unit="×",
    better="less",
    value=lambda trial: ratio(trial.network_bytes, trial.requested_bytes),
    needs="counters of the nodes' interfaces",
    rank=130,
)
FLASH_WRITE_AMPLIFICATION = Metric(
    name="flash_write_amplification",
    title="Write amplification of flash",
    unit="×",
    better="less",
    value=_flash_write_amplification,
    needs="writes to an emulated or simulated SSD",
    rank=135,
)
IOPS = Metric(
    name="iops",
    title="Device requests",
    unit="1/s",
    value=_device_requests,
    needs="counters of the device",
    rank=140,
)
READ_CALLS_PER_S = Metric(
    name="read_calls_per_s",
    title="Read calls",
    unit="1/s",
    value=lambda trial: trial.rate("read_calls"),
    rank=150,
)
