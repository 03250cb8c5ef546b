"""Makes every process of a site dishonest: what it answers is replaced on its way out, as FEDDAG_HOSTILE says."""

from __future__ import annotations

import os

import numpy as np

from feddag.federation.protocol import Answer
from feddag.federation.site_endpoint import SiteEndpoint
from feddag.federation.wire import encode_answer

_honest = SiteEndpoint.reply
_REPLACED = {
    "nan": lambda message: message[:-4] + np.float32(np.nan).tobytes(),
    "shape": lambda message: encode_answer(Answer(1.0, {"graph": np.zeros((3, 3), np.float32)})),
}


def _reply(self, request, content):
    reply = _honest(self, request, content)
    if "answer" in reply:
        reply["answer"] = _REPLACED[os.environ["FEDDAG_HOSTILE"]](reply["answer"])
    return reply


SiteEndpoint.reply = _reply
