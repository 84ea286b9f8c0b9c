"""A small web service that scores extractions in real time.

python examples/service.py --verifier embedded --port 8080
curl -s localhost:8080/score -d '{"document": "Total 40.00", "output": {"total": 40}}'
"""

import argparse

from aiohttp import web

from schemas.arrow_json import dump_json
from schemas.errors import RecordError
from verifier.scorer import Scorer

SCORER = web.AppKey("scorer", Scorer)


async def score(request: web.Request) -> web.Response:
    """Score one record: the posted JSON object has the record's keys."""
    try:
        scored = await request.app[SCORER].score(await request.json())
    except (RecordError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=422)
    body = {
        "trustworthiness_score": scored.trustworthiness_score,
        "trustworthiness_explanation": scored.trustworthiness_explanation,
        "fields": {name: field.score for name, field in scored.per_field_scores.items()},
        "route": scored.route.value,
        "review_reasons": scored.decision.reasons,
    }
    return web.Response(text=dump_json(body), content_type="application/json")


def make_app(verifier: str) -> web.Application:
    """The service; all requests share one scorer, and so the limits of its endpoint."""
    app = web.Application()
    app[SCORER] = Scorer(verifier)
    app.router.add_post("/score", score)
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verifier", required=True)
    parser.add_argument("--port", type=int, default=8080)
    arguments = parser.parse_args()
    web.run_app(make_app(arguments.verifier), host="127.0.0.1", port=arguments.port)
