"""Ask Tidegate before doing something: python3 check.py SUBJECT [REGION]"""
import json
import os
import sys
import urllib.error
import urllib.request

TIDEGATE = os.environ.get("TIDEGATE_URL", "http://127.0.0.1:8080")


def check(policy, subject, region=None, cost=1):
    """The decision: a dict with `admitted`, and `retry_after` in seconds on a denial."""
    question = {"policy": policy, "subject": subject, "region": region, "cost": cost}
    request = urllib.request.Request(
        TIDEGATE + "/v1/check",
        json.dumps(question).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as answer:
        if answer.code in (429, 503):  # denied; the body is the decision all the same
            return json.load(answer)
        raise  # 400 or 404: the question is wrong, see its `detail`


if __name__ == "__main__":
    decision = check("video_top", sys.argv[1], *sys.argv[2:3])
    if not decision["admitted"]:
        sys.exit(f"denied, come again in {decision.get('retry_after', '?')} s")
    print("admitted")
