"""What a run goes on with: its first record, and those from its last snapshot on."""

from __future__ import annotations

from collections.abc import Sequence

from teff.checkpoint.protocol import Record

__all__ = ["shortened"]


def shortened(records: Sequence[Record]) -> Sequence[Record]:
    """Leave out of ``records`` what stands between the first and the last snapshot.

    >>> kinds = ["start", "step", "snapshot", "step"]
    >>> [record.kind for record in shortened([Record(kind=kind, data={}) for kind in kinds])]
    ['start', 'snapshot', 'step']
    """
    for place in range(len(records) - 1, 0, -1):
        if records[place].kind == "snapshot":
            return (records[0], *records[place:])
    return records
