"""Seconds for which our limits hold requests are reported to the runner."""

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter

from launch.beam_flags import LOCAL_RUNNER
from tests.support.builders import TEMPLATES, record
from tests.support.scripted import scripted_server, target
from transforms.verify import NAMESPACE, VerifyRecords
from verifier.settings import VerifierSettings


def throttled(**settings: float) -> int:
    """The metric after a run over six records, 30 requests."""
    with scripted_server() as (server, _):
        pipeline = beam.Pipeline(LOCAL_RUNNER)
        _ = (
            pipeline
            | beam.Create([record({"a": i}, id=f"r{i}") for i in range(6)])
            | VerifyRecords(
                VerifierSettings.model_validate({"target": target(server), **settings}), TEMPLATES
            )
        )
        result = pipeline.run()
        result.wait_until_finish()
    wanted = MetricsFilter().with_name("cumulativeThrottlingSeconds").with_namespace(NAMESPACE)
    return sum(counter.committed for counter in result.metrics().query(wanted)["counters"])


def test_requests_that_a_rate_holds_are_reported() -> None:
    """30 requests at 10 a second take about 2 s longer than they would."""
    assert 1 <= throttled(requests_per_minute=600) <= 3
    assert throttled() == 0
