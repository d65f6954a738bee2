"""Private exceptions that stop an attempt; each carries one plain sentence and no personal data.

None is an `OSError` or an aiohttp error. aiohttp folds an `OSError` into classes of its own and sends PUT, DELETE and
the safe methods again after two of its own errors (aio-libs/aiohttp#10790), so a stop that must stay one needs a class
that neither rule knows.
"""


class Stop(Exception):
    """Base of all: the sentence is the observation's summary."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Refused(Stop):
    """The exchange itself is not fit to be sent; nothing was done on the network."""


class AddressRefused(Stop):
    """The address about to be dialled is none that this target may have."""


class ConnectDeadline(Stop):
    """No usable connection within the connect deadline."""


class SendRefused(Stop):
    """The owner's check, or ours, said no when the connection stood and no request byte had left."""


class Broken(Stop):
    """The connection failed in a way after which aiohttp would have sent again; the cause is chained."""


class SentTwice(Stop):
    """Something entered the sending path a second time for one attempt."""
